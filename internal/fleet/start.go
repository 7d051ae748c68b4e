package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/internal/relay"
)

const nodeConf = "node.conf"

// commonSettings hold for every node. max_connections, max_worker_processes
// and max_wal_senders stay as initdb chose them: a standby refuses to start
// when its own is lower than its primary's. fsync stays on: commits cost what
// they cost in earnest, and a killed server recovers as a real one does.
const commonSettings = `
# Written by breakwater's local fleet.
listen_addresses = '127.0.0.1'
unix_socket_directories = ''      # a socket's path has a length limit; TCP has none
shared_buffers = 8MB
wal_keep_size = 256MB             # what a replica that was cut off can still catch up on
wal_retrieve_retry_interval = 200ms
logging_collector = off           # standard error goes to the node's log file
log_line_prefix = '%m [%p] %b '
include = 'node.conf'
`

// Start makes a primary and its replicas and returns when a row committed on
// the primary was seen on every replica. It first sweeps what crashed fleets
// left in cfg.Dir. On an error nothing is left behind.
//
// Errors: all faults of cfg at once; ErrNoServer; ErrNoUser; else what a server
// said in its log.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	begin := time.Now()
	cfg = cfg.withDefaults()
	f, err := prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartBudget,
		fmt.Errorf("not ready within StartBudget (%v)", cfg.StartBudget))
	defer cancel()
	if err := f.start(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, errors.Join(fmt.Errorf("fleet: start: %w", err), f.Close()) //nolint:contextcheck // cleaning up outlasts ctx, and bounds itself
	}
	cfg.Log("fleet: %s, %d replicas ready in %v", f.Version(), cfg.Replicas, time.Since(begin).Round(time.Millisecond))
	return f, nil
}

// prepare checks everything that can be checked, and then makes the directory.
func prepare(ctx context.Context, cfg Config) (*Fleet, error) {
	bin, binErr := Find(ctx, cfg.BinDir)
	acct, acctErr := serverAccount()
	faults := []error{cfg.check(), binErr, acctErr}
	if errors.Join(faults...) == nil {
		faults = append(faults, acct.canEnter("Config.Dir", cfg.Dir), acct.canEnter("BinDir", bin.Dir))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if err := Sweep(cfg.Dir); err != nil { //nolint:contextcheck // bounds itself
		cfg.Log("%v", err) // another fleet's remains do not hinder this one
	}
	h, err := newHome(cfg.Dir)
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		cfg: cfg, bin: bin, account: acct, home: h, spawner: newSpawner(),
		adminPassword: rand.Text(), appPassword: rand.Text(),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.ports.taken = map[int]bool{}
	f.addNodes()
	return f, nil
}

func (f *Fleet) addNodes() {
	for _, name := range append([]string{primaryName}, replicaNames(f.cfg.Replicas)...) {
		f.nodes = append(f.nodes, &node{
			name: name,
			data: filepath.Join(f.home.path, name),
			log:  filepath.Join(f.home.path, name+".log"),
		})
	}
	for _, n := range f.replicas() {
		n.upstream = f.primary()
		if up := f.find(f.cfg.Upstream[n.name]); up != nil {
			n.upstream = up
		}
	}
}

func (f *Fleet) start(ctx context.Context) error {
	if err := f.initdb(ctx); err != nil {
		return err
	}
	f.cfg.Log("fleet: data directory made")
	if err := f.wire(ctx); err != nil {
		return err
	}
	if err := f.each(f.replicas(), f.cloneFromPrimary); err != nil {
		return err
	}
	f.cfg.Log("fleet: data directory copied, starting %s", f.names(f.nodes))
	if err := f.each(f.nodes, func(n *node) error { return f.firstStart(ctx, n) }); err != nil {
		return err
	}
	return f.CatchUp(ctx)
}

// each runs fn for all nodes at once and gathers the errors.
func (f *Fleet) each(nodes []*node, fn func(*node) error) error {
	var faults faultList
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() {
			if err := fn(n); err != nil {
				faults.add(fmt.Errorf("%s: %w", n.name, err))
			}
		})
	}
	wg.Wait()
	return faults.join()
}

func (f *Fleet) initdb(ctx context.Context) error {
	data := f.primary().data
	if err := f.makeOwned(data); err != nil {
		return err
	}
	pwFile := filepath.Join(f.home.path, "admin-password")
	if err := os.WriteFile(pwFile, []byte(f.adminPassword+"\n"), 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(pwFile) }()
	if err := f.account.own(pwFile); err != nil {
		return err
	}
	out, err := f.run(ctx, f.command("initdb", "-D", data, "--no-sync", "--username="+adminRole, "--pwfile="+pwFile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"))
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return appendTo(filepath.Join(data, "postgresql.conf"), commonSettings)
}

func (f *Fleet) makeOwned(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return f.account.own(dir)
}

func appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(text); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}

// command prepares a program of the server's for the account. The environment
// is ours, since libpq inside a standby obeys PGSSLMODE, PGPASSFILE and others.
func (f *Fleet) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(f.bin.path(program), args...) //nolint:noctx // servers outlive the context of their start
	cmd.Dir = f.home.path
	cmd.Env = []string{"LC_ALL=C", "PATH=" + f.bin.Dir + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + f.home.path}
	cmd.SysProcAttr = childAttr(f.account)
	return cmd
}

// run runs a program to its end, or kills it when ctx ends, and returns what it
// said.
func (f *Fleet) run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	out, err := os.CreateTemp(f.home.path, "output-*.log")
	if err != nil {
		return "", err
	}
	defer func() { _, _ = out.Close(), os.Remove(out.Name()) }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := f.spawner.start(cmd); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err = cmd.Wait()
	said, readErr := os.ReadFile(out.Name())
	return string(said), errors.Join(err, readErr)
}

// wire gives every node a port and every replica the relay to its upstream.
func (f *Fleet) wire(ctx context.Context) error {
	for _, n := range f.nodes {
		if err := f.assignPort(n); err != nil {
			return err
		}
	}
	for _, n := range f.replicas() {
		r, err := relay.New(ctx, n.upstream.addr())
		if err != nil {
			return err
		}
		n.relay = r
	}
	return nil
}

// assignPort gives n another port than before and tells the relays below it.
func (f *Fleet) assignPort(n *node) error {
	f.ports.Lock()
	defer f.ports.Unlock()
	p, err := freePort(func(p int) bool { return f.ports.taken[p] })
	if err != nil {
		return err
	}
	f.ports.taken[p] = true
	n.port = p
	for _, below := range f.replicas() {
		if below.upstream != n || below.relay == nil {
			continue
		}
		if err := below.relay.SetTarget(net.JoinHostPort(host, strconv.Itoa(p))); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) cloneFromPrimary(n *node) error {
	if err := copyTree(n.data, f.primary().data, f.account); err != nil {
		return err
	}
	return f.makeStandby(n)
}

func (f *Fleet) makeStandby(n *node) error {
	signalFile := filepath.Join(n.data, "standby.signal")
	if err := os.WriteFile(signalFile, nil, 0o600); err != nil {
		return err
	}
	return f.account.own(signalFile)
}

// firstStart starts n, on another port when its own was taken meanwhile.
func (f *Fleet) firstStart(ctx context.Context, n *node) error {
	n.op.Lock()
	defer n.op.Unlock()
	if err := f.upLocked(ctx, n, f.assignPort); err != nil {
		return err
	}
	if n != f.primary() {
		return nil
	}
	return f.populate(ctx)
}

// populate makes what clients use. The mark comes last: who sees it on a
// replica sees all of it there.
func (f *Fleet) populate(ctx context.Context) error {
	for _, q := range []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", appRole, f.appPassword),
		"GRANT pg_monitor TO " + appRole,
		fmt.Sprintf("CREATE DATABASE %s OWNER %s", appDB, appRole),
		"CREATE TABLE breakwater_mark AS SELECT 0::bigint AS n",
	} {
		if err := f.cfg.SQL(ctx, f.adminDSN(f.primary()), q); err != nil {
			return err
		}
	}
	return nil
}
