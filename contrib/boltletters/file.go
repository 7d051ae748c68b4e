package boltletters

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

const (
	fileName      = "letters.db"
	tempName      = "letters.db.new"
	corruptSuffix = ".corrupt"
	formatVersion = 1
)

// The buckets of a file.
//
//	meta     "version" → formatVersion
//	letters  lane → bucket of sequence → record; its own sequence is that of the newest letter
//	claims   sequence → lane and instant
//	counts   lane → letters and bytes
//	bad      number → the bytes of a record that could not be read; its own sequence counts them
var (
	metaBucket    = []byte("meta")    //nolint:gochecknoglobals // names
	lettersBucket = []byte("letters") //nolint:gochecknoglobals // names
	claimsBucket  = []byte("claims")  //nolint:gochecknoglobals // names
	countsBucket  = []byte("counts")  //nolint:gochecknoglobals // names
	badBucket     = []byte("bad")     //nolint:gochecknoglobals // names
	versionKey    = []byte("version") //nolint:gochecknoglobals // names
)

// hooks stand in for faults of the disk, in tests.
type hooks struct {
	// fail is asked at named points; its error is taken for one of the disk.
	fail func(point string) error
}

// The points at which a test may have the disk fail, or the process killed.
const (
	beforeCommit  = "before the commit"
	afterCommit   = "after the commit"
	beforeRestore = "before the state before a commit is put back"
	copied        = "the copy is complete"
	renamed       = "the copy is renamed"
	reopening     = "the file is opened again"
)

func (h hooks) at(point string) error {
	if h.fail == nil {
		return nil
	}
	return h.fail(point)
}

// judge has an existing file checked and puts it into quarantine if it is damaged.
func judge(ctx context.Context, c Config, path string) (*Quarantine, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing there, nothing wrong
	}
	if err != nil {
		return nil, fmt.Errorf("boltletters: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, c.CheckTimeout)
	defer cancel()
	verdict := c.Check(limited, path)
	switch {
	case verdict == nil:
		return nil, nil //nolint:nilnil // it is sound
	case ctx.Err() != nil:
		return nil, verdict
	case limited.Err() != nil:
		verdict = &damage{fmt.Sprintf("its check did not end in CheckTimeout, %v", c.CheckTimeout)}
	case !errors.Is(verdict, ErrCorrupt):
		return nil, verdict
	}
	aside := filepath.Join(c.Dir, "letters-"+time.Now().UTC().Format("20060102T150405.000000000Z")+corruptSuffix)
	if err := os.Rename(path, aside); err != nil {
		return nil, fmt.Errorf("boltletters: quarantine: %w", err)
	}
	return &Quarantine{Path: aside, Bytes: info.Size(), Err: verdict}, syncDir(c.Dir)
}

// quarantined lists the files of a directory that were put aside.
func quarantined(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir) // it was just read and written
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), corruptSuffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// create makes an empty file under its name in one step, so that a crash leaves either none or a whole one.
func create(c Config, path string) error {
	temp := filepath.Join(c.Dir, tempName)
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return syncDir(c.Dir) // a rename before a crash may not be there for good yet
	}
	db, err := bbolt.Open(temp, 0o600, &bbolt.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(layOut), db.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(c.Dir)
}

// layOut makes the buckets.
func layOut(tx *bbolt.Tx) error {
	for _, name := range [][]byte{lettersBucket, claimsBucket, countsBucket, badBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	meta, err := tx.CreateBucketIfNotExists(metaBucket)
	if err != nil {
		return err
	}
	return meta.Put(versionKey, binary.BigEndian.AppendUint32(nil, formatVersion))
}

// openFile opens a file that exists. The map is as big as the file may get, so that it never has to be made anew, for
// which a commit would have to wait for readers.
func openFile(c Config, path string) (db *bbolt.DB, file *os.File, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, nil, err // bbolt would make one
	}
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: time.Second, FreelistType: bbolt.FreelistMapType,
		InitialMmapSize: int(c.fileBytes()) + mib, MaxSize: int(c.fileBytes()),
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			file, err = os.OpenFile(name, flag, mode) //nolint:gosec // our own file
			return file, err
		},
	})
	if err != nil {
		return nil, nil, err
	}
	db.AllocSize = int(min(4*mib, max(64<<10, c.fileBytes()/64)))
	return db, file, nil
}

func checkVersion(tx *bbolt.Tx) error {
	for _, name := range [][]byte{lettersBucket, claimsBucket, countsBucket, badBucket, metaBucket} {
		if tx.Bucket(name) == nil {
			return fmt.Errorf("boltletters: the file has no bucket %q: it is no file of a Store: name another Dir", name)
		}
	}
	v := tx.Bucket(metaBucket).Get(versionKey)
	if len(v) != 4 || binary.BigEndian.Uint32(v) != formatVersion {
		return fmt.Errorf("boltletters: the file has format %x, this program knows %d: use the program that wrote it", v, formatVersion)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // our own directory
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// A metaPages is what bbolt's two meta pages held before a commit, which writes one of them as its last step.
type metaPages struct {
	file  *os.File
	pages []byte
	armed bool // a commit is under way, or has failed
}

// save reads the pages before a commit.
func (m *metaPages) save(path string, pageSize int) (err error) {
	if m.file == nil {
		if m.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
			return err
		}
	}
	if len(m.pages) != 2*pageSize {
		m.pages = make([]byte, 2*pageSize)
	}
	if _, err = m.file.ReadAt(m.pages, 0); err == nil {
		m.armed = true
	}
	return err
}

// restore undoes a commit that failed: had its meta page reached the file although its fsync failed,
// then the next commit would build on it, and make durable what its callers were told is not stored.
func (m *metaPages) restore() error {
	if !m.armed {
		return nil
	}
	if _, err := m.file.WriteAt(m.pages, 0); err != nil {
		return err
	}
	return m.file.Sync()
}

func (m *metaPages) close() {
	if m.file != nil {
		_ = m.file.Close() // what was written is synced
	}
	*m = metaPages{}
}
