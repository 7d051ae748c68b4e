package fleet

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// ErrNoUser means that we run as root, that PostgreSQL refuses root, and that
// there is no user postgres to start it as.
var ErrNoUser = errors.New("fleet: running as root, which PostgreSQL refuses, and there is no user postgres to run it as: " +
	"create one (useradd --system postgres) or run as another user")

// account is whom the servers run as. nil: as ourselves.
type account struct{ uid, gid int }

// serverAccount returns nil unless we are root, and then user postgres.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // no other account is needed, and nothing went wrong
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("_postgres") // macOS
	}
	if err != nil {
		return nil, ErrNoUser
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if uidErr != nil || gidErr != nil {
		return nil, fmt.Errorf("fleet: user %s has ids %q, %q, which are no numbers: run as another user than root", u.Username, u.Uid, u.Gid)
	}
	return &account{uid: uid, gid: gid}, nil
}

// own gives path to the account; for nil it is ours already.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// canEnter says which directory on the way down to dir the account cannot pass.
func (a *account) canEnter(field, dir string) error {
	if a == nil {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&a.searchBit(info) == 0 {
			return fmt.Errorf("fleet: %s %q: user postgres, as whom root must run the servers, cannot enter %s (mode %v): choose another directory, or chmod o+x %s",
				field, dir, at, info.Mode().Perm(), at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func (a *account) searchBit(info os.FileInfo) os.FileMode {
	uid, gid := ownerOf(info)
	switch {
	case uid == a.uid:
		return 0o100
	case gid == a.gid:
		return 0o010
	default:
		return 0o001
	}
}
