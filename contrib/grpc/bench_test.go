package grpcbreaker

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// What the Guard adds to a unary call and to a stream with one message: the call itself does nothing.
func BenchmarkGuard(b *testing.B) {
	conn, err := grpc.NewClient("passthrough:///none", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	g, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("call=unary", func(b *testing.B) {
		invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
		b.ReportAllocs()
		for b.Loop() {
			_ = g.Unary(b.Context(), "/shop.Orders/Get", nil, nil, conn, invoker)
		}
	})
	b.Run("call=stream", func(b *testing.B) {
		streamer := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			return answered{}, nil
		}
		desc := &grpc.StreamDesc{ClientStreams: true}
		b.ReportAllocs()
		for b.Loop() {
			s, _ := g.Stream(b.Context(), desc, conn, "/shop.Orders/Put", streamer)
			_ = s.RecvMsg(nil)
		}
	})
}

// answered is a stream whose answer is here.
type answered struct{ grpc.ClientStream }

func (answered) RecvMsg(any) error { return nil }
