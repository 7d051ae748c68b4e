package breaker

import "errors"

// Ignore marks an error as one that says nothing about the guarded thing: a call that
// returns it, wrapped or not, is Ignored, without asking Classify. Its text is that of err,
// and errors.Is and errors.As see err in it. Ignore(nil) is nil.
func Ignore(err error) error {
	if err == nil {
		return nil
	}
	return &ignoredError{err}
}

type ignoredError struct{ error }

func (e *ignoredError) Unwrap() error { return e.error }

func isIgnored(err error) bool {
	_, ok := errors.AsType[*ignoredError](err)
	return ok
}
