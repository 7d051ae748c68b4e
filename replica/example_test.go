package replica_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// still is a driver whose server stands still: a real one asks PostgreSQL.
type still struct{ look replica.Look }

func (s still) Look(context.Context) (replica.Look, error) { return s.look, nil }
func (still) Close()                                       {}

func stillNode(name string, recovery bool) replica.Node {
	look := replica.Look{SystemID: "7", Instance: name, InRecovery: recovery, Timeline: 1, Position: 0x3000060}
	return replica.Node{Name: name, Connect: func(context.Context) (replica.Conn, error) { return still{look}, nil }}
}

func ExampleSet_Pick() {
	set, err := replica.NewSet(replica.Config{
		Primary:  stillNode("primary", false),
		Replicas: []replica.Node{stillNode("r1", true)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	if err := set.Ready(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	choice, err := set.Pick(replica.Requirement{MaxStaleness: 2 * time.Second})
	if err != nil {
		fmt.Println(err) // each node with its reason
		return
	}
	// … the read, on the pool that belongs to choice.Target() …
	choice.Done(nil)
	fmt.Println("read from", choice.Name())
	// Output: read from r1
}

func ExampleNoReplicaError() {
	set, err := replica.NewSet(replica.Config{
		Primary:  stillNode("primary", false),
		Replicas: []replica.Node{stillNode("r1", false)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	_ = set.Ready(context.Background())
	_, err = set.Pick(replica.Requirement{})
	if no, ok := errors.AsType[*replica.NoReplicaError](err); ok {
		fmt.Println(no.Reasons[0].Node, "is", no.Reasons[0].Condition)
	}
	// Output: r1 is promoted
}

// A position travels to the client and back as text, signed so that nobody makes one up.
func ExamplePositionSigner() {
	signer, err := replica.NewPositionSigner(replica.PositionKey{ID: "k1", Secret: []byte("thirty-two bytes, known to nobody")})
	if err != nil {
		fmt.Println(err)
		return
	}
	cookie := signer.Sign(replica.Position{SystemID: "7458123456789012345", Timeline: 1, LSN: 0x16B374D848})
	fmt.Println(cookie)

	back, err := signer.Verify(cookie)
	ctx := replica.WithPosition(context.Background(), back) // reads under ctx see what was written before
	fmt.Println(replica.PositionFrom(ctx), err)

	_, err = signer.Verify("7458123456789012345.1.FFFFFFFFFFFF.k1.Dp0x5jLrWnGvGkqpXqg2Bw")
	fmt.Println(errors.Is(err, replica.ErrPositionSignature))
	// Output:
	// 7458123456789012345.1.16B374D848.k1.21hoTSDipMwBAY7XiyvSOA
	// 7458123456789012345.1.16B374D848 <nil>
	// true
}
