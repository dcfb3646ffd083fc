// Package symbols stores hashes of the dynamic symbols of a process: the linker of cells imports
// these symbols instead of linking their definitions.
package symbols

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
)

// Table is a set of names. The zero value is empty.
type Table struct {
	hashes []uint64 // sorted
}

// AddObject adds the names that a shared object defines.
func (t *Table) AddObject(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := f.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, s := range list {
		if s.Section != elf.SHN_UNDEF {
			t.hashes = append(t.hashes, hash(s.Name))
		}
	}
	slices.Sort(t.hashes)
	t.hashes = slices.Compact(t.hashes)
	return nil
}

// Bytes returns the table in the form that the linker reads.
func (t *Table) Bytes() []byte {
	b := make([]byte, 0, 8*len(t.hashes))
	for _, h := range t.hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return b
}

// Len returns the number of names.
func (t *Table) Len() int { return len(t.hashes) }

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name)) // cannot fail
	return h.Sum64()
}
