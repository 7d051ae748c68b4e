package fleet

// proc is one process of the system.
type proc struct {
	pid, ppid int
	state     byte   // R, S, D, T (stopped), Z (zombie), …
	name      string // the program's name, "postgres"
}

func (p proc) stopped() bool { return p.state == 'T' || p.state == 'Z' }

// descendants returns the processes below pid, parents before children.
func descendants(pid int) ([]proc, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	below := map[int][]proc{}
	for _, p := range all {
		below[p.ppid] = append(below[p.ppid], p)
	}
	found := below[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, below[found[i].pid]...)
	}
	return found, nil
}
