package server

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol/fault"
)

// processFile is the file that says which process used a node's data last. Its lock is held for as
// long as a process uses them.
type processFile struct{ file *os.File }

// processRecord is its content.
type processRecord struct {
	// Process is the id that the process has in the directory.
	Process string `json:"process"`
	// Boot, Device and Inode are of the file itself: a copy of the file has others.
	Boot   string `json:"boot"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// openProcessFile opens the file of a node. former is the id of the process that has used the same
// data last, if it has certainly ended: neither the data nor the machine is a copy.
func openProcessFile(cfg *config.Config) (p processFile, former string, err error) {
	const op = "node.process"
	if err := os.MkdirAll(cfg.NodeDir(), 0o700); err != nil {
		return p, "", fault.Wrap(fault.Host, op, err)
	}
	f, err := os.OpenFile(filepath.Join(cfg.NodeDir(), "process"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return p, "", fault.Wrap(fault.Host, op, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return p, "", errors.Join(fault.New(fault.Conflict, op,
			"another process uses the data in %s", cfg.NodeDir()), f.Close())
	}
	var was processRecord
	if json.NewDecoder(f).Decode(&was) == nil {
		if now, err := recordOf(f, was.Process); err == nil && now == was {
			former = was.Process
		}
	}
	return processFile{f}, former, nil
}

// write makes a process the last one that has used the data.
func (p processFile) write(process string) error {
	now, err := recordOf(p.file, process)
	if err != nil {
		return err
	}
	text, err := json.Marshal(now)
	if err == nil {
		err = p.file.Truncate(0)
	}
	if err == nil {
		_, err = p.file.WriteAt(append(text, '\n'), 0)
	}
	return fault.Wrap(fault.Host, "node.process", err)
}

// close releases the lock.
func (p processFile) close() error { return p.file.Close() }

// recordOf returns the record of a process in a file.
func recordOf(f *os.File, process string) (processRecord, error) {
	var is unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &is); err != nil {
		return processRecord{}, fault.Wrap(fault.Host, "node.process", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return processRecord{
		process, strings.TrimSpace(string(boot)), uint64(is.Dev), is.Ino,
	}, fault.Wrap(fault.Host, "node.process", err)
}
