// Package grpcbreaker puts a circuit breaker before the calls of a gRPC client: one for each target and
// service, or for each key of the caller's.
//
//	guard, err := grpcbreaker.New(grpcbreaker.Config{})
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(guard.Unary),
//		grpc.WithChainStreamInterceptor(guard.Stream),
//		…)
//
// A call whose breaker is open is refused at once with a [RefusedError], whose status is Unavailable and which matches
// [breaker.ErrOpen]; nothing is sent. One Guard may serve any number of connections. An interceptor that tries calls
// again belongs before the Guard in the chain, so that each try is asked for and counted; where it stands after it, only
// the last try counts.
//
// # What counts
//
// A call is judged by its status code, see [Classify]: Unavailable and DeadlineExceeded are failures (REQ-B9); an
// answer that only the server's own code gives, NotFound for one, is a success; all other codes are ignored. Who
// wants Internal, Unknown, DataLoss or ResourceExhausted to count sets Config.Breaker.Classify. What ended the call goes before
// its code: a call that its caller cancelled is ignored, and one that ran into its caller's deadline is a failure once it
// has lasted [Config.SlowCall], else ignored. A timeout of ours is a DeadlineExceeded, and so a failure.
//
// A google.rpc.RetryInfo in the details of Unavailable or ResourceExhausted opens the breaker for its delay, within
// Config.Breaker.Open.Base and Max, whatever the rules count.
//
// # Timeouts
//
// A unary call ends after [Config.CallTimeout] (REQ-B11), which the server is told as its deadline. A stream may live
// as long as its caller likes. [Config.AnswerTimeout] bounds each single wait for the server until it was heard, by a header
// or a message: for the connection, in SendMsg, Header and RecvMsg. A stream that may rightly be silent at first, a
// subscription without an event for one, needs [WithCallTimeout] with a negative time.
//
// # Streams
//
// The outcome of a stream is that of its end: RecvMsg with io.EOF is a success (for a stream with a single answer: that
// answer), any other error is judged as above. A stream that its caller abandons by its context is ignored, and gives a
// half-open probe back at once; the caller's deadline on one that was heard is ignored too. One that is dropped without
// its context ending leaks, as gRPC's documentation says; its probe ends with [breaker.Probe.Lease].
//
// A stream that was heard and lives for half of Probe.Lease is a success at that moment, so that hour-long
// streams can close a half-open breaker. If it ends by an error later, that is judged as a call of its own, if the breaker
// is closed then. A stream that was not heard yet says nothing before its end, and after the lease its probe goes to
// another call.
//
// A latency rule of the breaker times a stream until its server is first heard, by headers or a message. An upload is
// heard at its end: give long ones a Guard of their own.
//
// # Concurrency
//
// All methods of [Guard] may be called at any time from any goroutine. A stream may be used as gRPC's own: one goroutine
// that sends and one that receives. Config.Key, Classify and the functions of the Observer run concurrently on the
// callers' goroutines, with no lock held; package breaker says what holds for the last two. A panic in Key
// is caught, told to Observer.OnFault, and the call uses the usual key (REQ-B18).
//
// No goroutine is started. A call has a timer while it waits, a stream a timer for half a lease and a
// context.AfterFunc on its caller's context; the end of the call takes them off.
package grpcbreaker
