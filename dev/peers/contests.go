package main

// contests is everything that is measured. The first contender of each is its floor.
func contests() []contest {
	return []contest{
		closedContest(), rateContest(), latencyContest(), openContest(), halfOpenContest(), keyedContest(), bucketContest(),
	}
}

func floorOf(title string, s setup) contender { return contender{id: "floor", title: title, setup: s} }

func theFloor() contender { return floorOf("floor: a load and an add", floor) }

func peer(id, title string, s setup) contender { return contender{id: id, title: title, setup: s} }

func us(id, title string, s setup) contender {
	return contender{id: "breakwater_" + id, title: "**" + title + "**", ours: true, setup: s}
}

// closedContest is measured on two processors too.
func closedContest() contest {
	c, g := oursConfig(forever), gobreakerSettings(forever)
	list := []contender{
		theFloor(),
		{id: "control", title: "control: a floor of its own for each goroutine", private: true, setup: floor},
		{id: "arithmetic", title: "control: arithmetic without memory", private: true, setup: arithmetic},
		us("allow_done", "Allow + Done", ours(c, closed, oursAllowDone)),
		us("do", "Do", ours(c, closed, oursDo)),
		peer("gobreaker_two_step", "gobreaker, Allow + done", gobreakerTwoStep(g, closed)),
		peer("gobreaker_execute", "gobreaker, Execute", gobreakerExecute(g, closed)),
		peer("failsafe_permit", "failsafe-go, permit + record", failsafePermit(failsafeConfig(forever), closed)),
		peer("failsafe_executor", "failsafe-go, executor", failsafeExecutor(failsafeConfig(forever), closed)),
		peer("resiliency_run", "go-resiliency, Run (counts no success)", resiliencyRun(closed)),
		peer("hystrix_do", "hystrix-go, Do (always a rate, a timeout, a bulkhead)", hystrixDo("closed", closed)),
	}
	for i := range list {
		list[i].parallel = true
	}
	return contest{"closed", "Closed, a call that succeeds; five failures in a row open", list}
}

func rateContest() contest {
	return contest{"rate", "The same; more than half of at least 20 calls in 10 s open", []contender{
		theFloor(),
		us("allow_done", "Allow + Done", ours(oursRate(), closed, oursAllowDone)),
		us("do", "Do", ours(oursRate(), closed, oursDo)),
		peer("gobreaker_two_step", "gobreaker, Allow + done", gobreakerTwoStep(gobreakerRate(), closed)),
		peer("gobreaker_execute", "gobreaker, Execute", gobreakerExecute(gobreakerRate(), closed)),
		peer("failsafe_permit", "failsafe-go, permit + record", failsafePermit(failsafeRate(), closed)),
		peer("failsafe_executor", "failsafe-go, executor", failsafeExecutor(failsafeRate(), closed)),
	}}
}

func latencyContest() contest {
	return contest{"latency", "The same; latency rules (P99 and CUSUM), or what the peer has for slow calls", []contender{
		floorOf("floor: two looks at the clock, two adds", timedFloor),
		us("allow_done", "Allow + Done", ours(oursLatency(), closed, oursAllowDone)),
		us("do", "Do", ours(oursLatency(), closed, oursDo)),
		peer("failsafe_executor", "failsafe-go, executor around a timeout", failsafeExecutor(failsafeConfig(forever), closed, failsafeTimeout())),
		peer("hystrix_do", "hystrix-go, Do", hystrixDo("latency", closed)),
	}}
}

func openContest() contest {
	c, g := oursConfig(forever), gobreakerSettings(forever)
	return contest{"open", "Open, a call that is refused", []contender{
		theFloor(),
		us("allow", "Allow", refused(ours(c, oursOpen, oursAllowDone))),
		us("do", "Do", refused(ours(c, oursOpen, oursDo))),
		peer("gobreaker_two_step", "gobreaker, Allow", refused(gobreakerTwoStep(g, twoStepOpen))),
		peer("gobreaker_execute", "gobreaker, Execute", refused(gobreakerExecute(g, gobreakerOpen))),
		peer("failsafe_permit", "failsafe-go, permit", refused(failsafePermit(failsafeConfig(forever), failsafeOpen))),
		peer("failsafe_executor", "failsafe-go, executor", refused(failsafeExecutor(failsafeConfig(forever), failsafeOpen))),
		peer("resiliency_run", "go-resiliency, Run", refused(resiliencyRun(resiliencyOpen))),
		peer("hystrix_do", "hystrix-go, Do", refused(hystrixDo("open", hystrixOpen))),
	}}
}

func halfOpenContest() contest {
	c, g := oursConfig(brief), gobreakerSettings(brief)
	return contest{"half_open", "Half-open with its one probe out, a call that is refused", []contender{
		theFloor(),
		us("allow", "Allow", refused(ours(c, oursHalfOpen, oursAllowDone))),
		us("do", "Do", refused(ours(c, oursHalfOpen, oursDo))),
		peer("gobreaker_two_step", "gobreaker, Allow", refused(gobreakerTwoStep(g, twoStepHalfOpen))),
		peer("gobreaker_execute", "gobreaker, Execute", refused(gobreakerExecute(g, gobreakerHalfOpen))),
		peer("failsafe_permit", "failsafe-go, permit", refused(failsafePermit(failsafeConfig(brief), failsafeHalfOpen))),
		peer("failsafe_executor", "failsafe-go, executor", refused(failsafeExecutor(failsafeConfig(brief), failsafeHalfOpen))),
	}}
}

// keyedContest takes 1,024 keys in turn. hystrix-go is keyed in every contest.
func keyedContest() contest {
	list := []contender{floorOf("floor: a look into a sync.Map, a load and an add", keyedFloor)}
	list = append(list, oursKeyed()...)
	list = append(list, peer("gobreaker_execute", "gobreaker in a sync.Map, Execute", gobreakerKeyed))
	return contest{"keyed", "Closed, one breaker for each of 1,024 keys", list}
}

func bucketContest() contest {
	list := []contender{floorOf("floor: a look at the clock, a load and a compare-and-swap", clockFloor)}
	list = append(list, oursBucket()...)
	list = append(list, peer("rate_allow", "golang.org/x/time/rate, Allow", rateAllow))
	return contest{"bucket", "Token bucket, a call that is admitted", list}
}
