package admin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/server"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A backup is a tar file: backupHead first, then the data directory, last
// backupSums with the SHA-256 of each file.
const (
	backupHead   = "sandgate-backup.json"
	backupSums   = "SHA256SUMS"
	backupFormat = 1
)

// BackupInfo is the content of backupHead.
type BackupInfo struct {
	Format   int       `json:"format"`
	Version  string    `json:"version"`
	Time     time.Time `json:"time"`
	Sessions bool      `json:"sessions"`
}

// notInBackup returns folders of the data directory that the next start creates again: the
// runtimes and images, of which it has the current ones only, and the warm snapshots.
func notInBackup() []string {
	return []string{"bin", "editions", filepath.Join("node", "snapshots")}
}

// LockStopped ensures that no server runs and that none starts until unlock is called. It takes the
// lock that a node holds.
func LockStopped(cfg *config.Config) (unlock func(), err error) {
	const op = "backup.lock"
	if err := server.MakeDir(cfg.RunDir); err != nil {
		return nil, err
	}
	if unlock, err = server.LockNode(cfg); err != nil {
		return nil, err
	}
	if unlock == nil {
		return nil, fault.New(fault.Conflict, op,
			"a server runs with data_dir %s; stop it first: it then saves its sessions to disk, and the next start restores them", cfg.DataDir)
	}
	return unlock, nil
}

// Backup writes the whole file, or no file.
func Backup(ctx context.Context, cfg *config.Config, name, version string,
	sessions bool,
) (files int, size int64, err error) {
	const op = "backup"
	if _, err := os.Stat(cfg.DataDir); err != nil {
		return 0, 0, &fault.Error{
			Kind: fault.NotFound, Op: op,
			Message: "there is no data directory " + cfg.DataDir, Err: err,
		}
	}
	part := name + ".part"
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, 0, &fault.Error{
			Kind: fault.Host, Op: op, Message: "cannot write " + part,
			Err: err,
		}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	var w io.WriteCloser = out
	if strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".tgz") {
		w, _ = gzip.NewWriterLevel(out, gzip.BestSpeed) // the level is valid
	}
	b := &archive{ctx: ctx, tar: tar.NewWriter(w), root: cfg.DataDir, version: version}
	err = b.all(sessions)
	if err == nil {
		err = b.tar.Close()
	}
	if w != io.WriteCloser(out) {
		err = errors.Join(err, w.Close())
	}
	err = errors.Join(err, out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(part, name)
	}
	var known *fault.Error
	if err != nil && !errors.As(err, &known) {
		err = &fault.Error{Kind: fault.Host, Op: op, Message: "the backup was not written: " +
			err.Error(), Err: err}
	}
	return b.files, b.size, err
}

// archive writes a tar file.
type archive struct {
	ctx     context.Context
	tar     *tar.Writer
	root    string
	version string
	sums    bytes.Buffer
	files   int
	size    int64
}

func (b *archive) all(sessions bool) error {
	head, err := json.Marshal(BackupInfo{backupFormat, b.version, time.Now().UTC(), sessions})
	if err != nil {
		return err
	}
	if err := b.text(backupHead, head); err != nil {
		return err
	}
	skip := notInBackup()
	if !sessions {
		skip = append(skip, "node")
	}
	err = filepath.WalkDir(b.root, func(path string, d fs.DirEntry, err error) error {
		name, rerr := filepath.Rel(b.root, path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !sessions:
			return nil // a running server has removed it
		case errors.Is(err, unix.ENAMETOOLONG) && inVolumes(name):
			return fs.SkipDir // it belongs to a user, and must not prevent the backup
		case err != nil || rerr != nil:
			return errors.Join(err, rerr)
		case name == ".":
			return nil
		case b.ctx.Err() != nil:
			return b.ctx.Err()
		}
		for _, s := range skip {
			if name == s {
				return fs.SkipDir
			}
		}
		return b.add(path, name, d)
	})
	if err != nil {
		return err
	}
	return b.text(backupSums, b.sums.Bytes())
}

func (b *archive) text(name string, data []byte) error {
	h := &tar.Header{
		Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: time.Now(),
		Typeflag: tar.TypeReg,
	}
	if err := b.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := b.tar.Write(data)
	return err
}

// add writes a file or a folder. It ignores sockets and other special files, which a running server
// leaves.
func (b *archive) add(path, name string, d fs.DirEntry) error {
	if d.Type() == fs.ModeSymlink && inVolumes(name) {
		return b.link(path, name, d)
	}
	if !d.IsDir() && !d.Type().IsRegular() {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname = filepath.ToSlash(name), "", ""
	if d.IsDir() {
		h.Name += "/"
		return b.tar.WriteHeader(h)
	}
	if err := b.tar.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	// A journal may grow meanwhile. Its size at the start counts.
	n, err := io.CopyN(io.MultiWriter(b.tar, sum), contextReader{b.ctx, f}, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.files++
	b.size += n
	fmt.Fprintf(&b.sums, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), sumName(h.Name))
	return nil
}

// link writes a symbolic link. Users have them in volumes.
func (b *archive) link(path, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	target, err := os.Readlink(path)
	if err != nil {
		return err
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname = filepath.ToSlash(name), "", ""
	return b.tar.WriteHeader(h)
}

// inVolumes reports whether a name in the data directory belongs to a user's volume.
func inVolumes(name string) bool {
	return strings.HasPrefix(filepath.ToSlash(name), "node/volumes/")
}

// sumName escapes a name for a line of the list of checksums.
func sumName(name string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(name)
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
