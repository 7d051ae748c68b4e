package emit

import "testing"

// TestForgetLooksTwice: what comes while the store is asked whether it is empty still holds its key back.
func TestForgetLooksTwice(t *testing.T) {
	k := newKeys()
	k.comes("ghost")
	held := func() bool {
		turn := k.begin("ghost")
		turn.end(false)
		return turn.held
	}
	k.forget(func() bool { return false })
	if !held() {
		t.Error("forgotten though letters are stored")
	}
	k.forget(func() bool { k.comes("other"); return true })
	if !held() {
		t.Error("forgotten though a letter came meanwhile")
	}
	turn := k.begin("third")
	k.forget(func() bool { t.Error("the store was asked though a trigger is on its way into it"); return true })
	turn.end(false)
	k.forget(func() bool { return true })
	if held() {
		t.Error("still held though nothing is stored")
	}
}

// A trigger that is not held has its key to itself from its turn on: a letter that is sent back just then waits.
func TestTurnIsLive(t *testing.T) {
	k := newKeys()
	first := k.begin("a")
	if first.held || !k.live("a") {
		t.Errorf("held %v, live %v", first.held, k.live("a"))
	}
	first.end(true)
	second := k.begin("a")
	if !second.held || k.live("a") {
		t.Errorf("behind a letter: held %v, live %v", second.held, k.live("a"))
	}
}

// While emits may store what is not counted nothing is taken off, lest another trigger's count goes with it.
func TestFrozenKeysOnlyGrow(t *testing.T) {
	k := newKeys()
	k.freeze(1)
	k.comes("a")
	k.gone("a") // an uncounted one of the same key
	unstored := k.idle("a")
	unstored.end(false)
	k.forget(func() bool { t.Error("the store was asked"); return true })
	if turn := k.begin("a"); !turn.held {
		t.Error("the letter holds its key no more")
	} else {
		turn.end(false)
	}
	k.thaw()
	k.gone("a")
	k.gone("a")
	if turn := k.begin("a"); turn.held {
		t.Error("held though all is gone")
	}
}
