package snapshot

import (
	"encoding/json"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	recordName = "session.json"
	ownerName  = "owner.json"
)

// Owner is the file owner.json beside the record of a hibernated session. It has the checksum of
// the record. If the record is damaged, Owner names the owner of the lost session.
type Owner struct {
	Version  int               `json:"version"`
	ID       string            `json:"id"`
	Tenant   string            `json:"tenant"`
	Subject  string            `json:"subject"`
	Language string            `json:"language"`
	Created  time.Time         `json:"created"`
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Checksum uint32            `json:"record_crc32c"`
}

// Lost returns a record without channels for the lost session.
func (o Owner) Lost() Record {
	v := Record{Version: Version}
	v.ID, v.Tenant, v.Subject, v.Language = o.ID, o.Tenant, o.Subject, o.Language
	v.Created, v.Active, v.Name, v.Labels = o.Created, o.Created, o.Name, o.Labels
	v.Expires = ExpiresAfter(o.Created, 0)
	return v
}

func recordChecksum(data []byte) uint32 {
	return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
}

// WriteRecord writes the record of a session, in its form as JSON, to the session's folder. r is
// the record without its channels.
func WriteRecord(dir string, r *Record, data []byte) error {
	owner, err := json.Marshal(Owner{
		Version: Version, ID: r.ID, Tenant: r.Tenant, Subject: r.Subject, Language: r.Language,
		Created: r.Created, Name: r.Name, Labels: r.Labels, Checksum: recordChecksum(data),
	})
	if err != nil {
		return err
	}
	// The record comes last: without it the folder is not complete.
	return errors.Join(atomicfile.Write(filepath.Join(dir, ownerName), owner),
		atomicfile.Write(filepath.Join(dir, recordName), data))
}

// ReadRecord reads the record of the session with an id from its folder. Errors: NotFound without a
// record, Unsupported for one of another version. With Malformed, for one that was changed on the
// disk, owner says whose it was; it is nil if that is not known.
func ReadRecord(dir, id string) (v Record, owner *Owner, err error) {
	const op = "session.load"
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v, nil, fault.Wrap(fault.NotFound, op, err)
	case err != nil:
		return v, readOwner(dir, id), fault.Wrap(fault.Malformed, op, err)
	}
	owner = readOwner(dir, id)
	if owner != nil && owner.Checksum != recordChecksum(data) {
		return v, owner, fault.New(fault.Malformed, op, "the record was changed on the disk")
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, owner, fault.Wrap(fault.Malformed, op, err)
	}
	if v.Version != Version || v.ID != id {
		return v, owner, fault.New(fault.Unsupported, op,
			"the file is of version %d, and of session %s", v.Version, v.ID)
	}
	return v, owner, nil
}

// readOwner returns nil for a file that is missing, as with earlier releases, or damaged.
func readOwner(dir, id string) *Owner {
	data, err := os.ReadFile(filepath.Join(dir, ownerName))
	if err != nil {
		return nil
	}
	o := new(Owner)
	if json.Unmarshal(data, o) != nil || o.Version != Version || o.ID != id || o.Tenant == "" {
		return nil
	}
	return o
}
