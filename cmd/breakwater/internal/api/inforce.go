package api

import "github.com/breakwater-go/breakwater/emit"

// emitSettings are those of an emit.Router in force.
type emitSettings struct{ emit.Config }

// configured is an emit.Router that tells its settings.
type configured interface{ Config() emit.Config }

// inForce asks a Router for its settings.
func inForce(r *emit.Router) emitSettings {
	if c, ok := any(r).(configured); ok {
		return emitSettings{c.Config()}
	}
	return emitSettings{}
}

func (s *emitSettings) consumer(name string) emit.Consumer {
	for i := range s.Consumers {
		if s.Consumers[i].Name == name {
			return s.Consumers[i]
		}
	}
	return emit.Consumer{}
}

// priorities are their names, the most important first.
func (s *emitSettings) priorities() []string {
	if len(s.Priorities) == 0 {
		return []string{"compliance", "normal", "idle-ping"}
	}
	return s.Priorities
}
