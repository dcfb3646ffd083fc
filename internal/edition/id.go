package edition

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

// ID names an edition by the content of its files.
type ID struct {
	// Runtime is the hash of the runsc binary, Image that of the image's superblock.
	Runtime string `json:"runtime"`
	Image   string `json:"image"`
}

// String returns the ID as text, for messages between nodes and for clients.
func (id ID) String() string { return id.Runtime + "-" + id.Image }

// Parse reads the text of an ID.
func Parse(text string) (ID, bool) {
	runtime, image, ok := strings.Cut(text, "-")
	return ID{runtime, image}, ok && runtime != "" && image != ""
}

// short returns the beginning of a hash, for messages.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// RuntimeID identifies a runsc binary by its content.
func RuntimeID(runsc string) (string, error) {
	f, err := os.Open(runsc)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

// superblock is the number of bytes at the beginning of an image that identify it.
const superblock = 4 << 10

// ImageID identifies an image by its EROFS superblock, which holds the build
// time, a checksum and a random id. It reads 4 KiB.
func ImageID(image string) (string, error) {
	f, err := os.Open(image)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var head [superblock]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return "", fmt.Errorf("reading the superblock of %s: %w", image, err)
	}
	sum := sha256.Sum256(head[:])
	return hex.EncodeToString(sum[:12]), nil
}

const gvisorModule = "gvisor.dev/gvisor"

// GVisor returns the version of the gVisor module in a binary.
func GVisor(binary string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	return moduleVersion(info)
}

// OwnGVisor returns the version of the gVisor module in this process, or "" in a binary that does
// not contain it (such as a test's).
func OwnGVisor() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	v, _ := moduleVersion(info)
	return v
}

func moduleVersion(info *debug.BuildInfo) (string, error) {
	for _, m := range info.Deps {
		if m.Path == gvisorModule {
			return m.Version, nil
		}
	}
	return "", errors.New("not built from gVisor's module")
}
