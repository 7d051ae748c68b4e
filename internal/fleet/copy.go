package fleet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// copyTree copies a data directory with its modes and gives the copy to the
// account. Files are copied, never hard-linked: a server changes them in place.
func copyTree(dst, src string, a *account) error {
	return filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return copyOne(filepath.Join(dst, rel), path, info, a)
	})
}

func copyOne(dst, src string, info fs.FileInfo, a *account) error {
	switch {
	case info.IsDir():
		if err := os.Mkdir(dst, info.Mode().Perm()); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		if err := copyFile(dst, src, info.Mode().Perm()); err != nil {
			return err
		}
	default:
		return fmt.Errorf("fleet: %s is neither file nor directory (%v)", src, info.Mode())
	}
	return a.own(dst)
}

func copyFile(dst, src string, mode fs.FileMode) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return out.Close()
}
