package breaker

// DryRun makes a rule report to Observer.OnWouldOpen, once as long as it holds, instead of
// opening: to try a threshold on live traffic. It reports in Closed only. What it measures is not
// reset by a report; Reconfigure lets it report again. A Signal in it keeps nothing from closing either.
type DryRun struct {
	// Rule is what is tried. Required.
	Rule Rule
}

func (r DryRun) withDefaults() Rule {
	if isValue(r.Rule) {
		r.Rule = r.Rule.withDefaults()
	}
	return r
}

func (r DryRun) check(field string) error {
	if !isValue(r.Rule) {
		return fault(field+".Rule", kindOf(r.Rule), "put the rule itself there")
	}
	if _, dry := r.Rule.(DryRun); dry {
		return fault(field+".Rule", "a DryRun", "put the rule itself here")
	}
	return r.Rule.check(field + ".Rule")
}

func (r DryRun) detector() detector { return r.Rule.detector() }

// plain is the rule itself and the field that it is in.
func plain(r Rule, field string) (Rule, string) {
	if dry, ok := r.(DryRun); ok {
		return dry.Rule, field + ".Rule"
	}
	return r, field
}
