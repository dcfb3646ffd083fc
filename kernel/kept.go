package kernel

import (
	"fmt"
	"strings"
	"unicode"
)

// Keep is the part of the requests keep and restore about variables that outlive their kernel.
//
// A driver answers keep by writing the variables of the user to File, which only the user can read,
// and restore by reading them. It removes File before it uses any of it, so that a value which ends
// the kernel does so once. Both replies have the fields of a Kept. A driver that can do neither
// answers that it does not know the operation.
type Keep struct {
	// File is an absolute path. keep makes its folder if it does not exist.
	File string `json:"file"`
	// Bytes is the largest size of the file, and Seconds the time for the request. A driver leaves
	// out variables for which they are not enough, and names them as lost.
	Bytes   int64 `json:"bytes,omitempty"`
	Seconds int   `json:"seconds,omitempty"`
}

// Limits of a Kept.
const (
	MaxKeptNames  = 20
	MaxKeptLetter = 60 // characters of a name
)

// Kept is a driver's answer to keep or restore. Drivers run code of users: Bounded makes it fit to be
// shown.
type Kept struct {
	// Written means that keep has written the file.
	Written bool `json:"written,omitempty"`
	// Kept and Lost are the first names of variables that were kept and that were not. The counts
	// include the others.
	Kept      []string `json:"kept"`
	KeptCount int      `json:"kept_count"`
	Lost      []string `json:"lost"`
	LostCount int      `json:"lost_count"`
}

// Count counts a variable, and adds its name if there is room.
func (k *Kept) Count(name string, kept bool) {
	names, count := &k.Lost, &k.LostCount
	if kept {
		names, count = &k.Kept, &k.KeptCount
	}
	*count++
	if len(*names) < MaxKeptNames {
		*names = append(*names, name)
	}
}

// Bounded returns k with at most MaxKeptNames names of each kind, which are short and printable, and
// with counts that are not below their number.
func (k Kept) Bounded() Kept {
	k.Kept, k.KeptCount = bounded(k.Kept, k.KeptCount)
	k.Lost, k.LostCount = bounded(k.Lost, k.LostCount)
	return k
}

func bounded(names []string, count int) ([]string, int) {
	fit := []string{}
	for _, n := range names[:min(len(names), MaxKeptNames)] {
		n = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return -1
		}, strings.ToValidUTF8(n[:min(len(n), 8*MaxKeptLetter)], ""))
		if r := []rune(n); len(r) > MaxKeptLetter {
			n = string(r[:MaxKeptLetter-1]) + "…"
		}
		fit = append(fit, n)
	}
	return fit, max(count, len(fit))
}

// Names writes the first names of variables in a sentence, and how many more there are.
func Names(names []string, count int) string {
	text := strings.Join(names, ", ")
	if more := count - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
