package edition

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Inspected is an edition in the folder of a store, as another process sees it.
type Inspected struct {
	Files
	// Current is true for the one of new sessions. Its files are elsewhere if they could not be kept.
	Current bool
	// Err says why its files cannot be used; nil if they are what their names say.
	Err error
}

// Inspect reads the folder of a store, which a node may use, and changes nothing. Without a store there
// are none.
func Inspect(dir string) (found []Inspected, err error) {
	const op = "edition.inspect"
	text, err := os.ReadFile(filepath.Join(dir, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []*record
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	s := &Store{o: Options{Dir: dir}}
	for i, r := range all {
		if r.Gone {
			continue
		}
		one := Inspected{Files: s.files(r.ID), Current: i == 0}
		is, err := identify(one.Runsc, one.Image)
		switch {
		case err != nil:
			one.Err = err
		case is != r.ID:
			one.Err = errChanged
		case !Reachable(one.Runsc):
			one.Err = errors.New("not every user can enter the folders of " + one.Runsc)
		}
		found = append(found, one)
	}
	return found, nil
}
