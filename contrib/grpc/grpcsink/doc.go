// Package grpcsink delivers triggers to one consumer by a unary gRPC method of its own.
//
//	client := shoppb.NewEventsClient(conn)
//	sink, err := grpcsink.New(client.Publish, func(t emit.Trigger) (*shoppb.PublishRequest, error) {
//		return &shoppb.PublishRequest{Id: t.ID, Payload: t.Data}, nil
//	}, grpcsink.Config{})
//
// The ID of a trigger, which is the same at each delivery, travels in the metadata as idempotency-key (REQ-E8). A trigger
// of which the function makes no request is rejected, and nothing is sent.
//
// # What an answer means
//
// As REQ-E15 has it for HTTP, by the meaning of the codes:
//
//   - OK: delivered.
//   - InvalidArgument, NotFound, AlreadyExists, PermissionDenied, Unauthenticated, FailedPrecondition and OutOfRange: rejected, the error
//     matches [emit.ErrRejected].
//   - All others are failures; Unimplemented too, which a proxy or a version that is just being replaced answers, and Aborted, which
//     asks for another attempt.
//   - A RetryInfo in the details of Unavailable or ResourceExhausted makes it an [emit.LaterError], of at most [MaxRetryAfter].
//
// The errors wrap the status: status.Code and status.Convert read them. Where an AlreadyExists says that an earlier delivery has
// taken effect, or another code means something else, a function around the method says so:
//
//	publish := func(ctx context.Context, req *shoppb.PublishRequest, opts ...grpc.CallOption) (*shoppb.PublishResponse, error) {
//		resp, err := client.Publish(ctx, req, opts...)
//		if status.Code(err) == codes.AlreadyExists {
//			return resp, nil
//		}
//		return resp, err
//	}
//
// A request over the connection's MaxCallSendMsgSize fails with ResourceExhausted like a consumer that is full: keep the size of triggers
// below it.
//
// # Time
//
// The context bounds a delivery, and the consumer is told its deadline; a Router's lane sets it. The connection, its keepalive and its
// credentials are the caller's. A Guard of grpcbreaker on it is not needed: the lane has a breaker.
//
// # Concurrency
//
// Deliver may be called at any time from any goroutine, and calls the functions given to New concurrently, on the
// goroutine of the delivery. No goroutine is started.
package grpcsink
