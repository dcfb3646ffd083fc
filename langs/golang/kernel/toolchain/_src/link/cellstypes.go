package ld

import (
	"cmd/link/internal/loader"
	"encoding/binary"
	"internal/abi"
	"os"
	"sort"
	"strings"
)

// cellMaxMask is the largest range of a type, in bytes, for which the side table has a pointer
// mask: 1 MiB.
const cellMaxMask = 1 << 20

// cellType looks a type without data up in the side table.
func cellType(ctxt *Link, s loader.Sym) (size, ptrdata int64, mask []byte, ok bool) {
	if !cells.on || len(ctxt.loader.Data(s)) > 0 {
		return
	}
	h := cellHash(ctxt.loader.SymName(s))
	rec := cells.types[8:]
	i := sort.Search(cells.ntypes,
		func(i int) bool { return binary.LittleEndian.Uint64(rec[i*16:]) >= h })
	if i == cells.ntypes || binary.LittleEndian.Uint64(rec[i*16:]) != h {
		Exitf("cells: the layout of %s is not known", ctxt.loader.SymName(s))
	}
	off, n := binary.LittleEndian.Uint32(rec[i*16+8:]), binary.LittleEndian.Uint32(rec[i*16+12:])
	b := cells.types[off : off+n]
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:])), b[16:],
		true
}

// cellSize is decodetypeSize for a type whose data may not have been read.
func cellSize(ctxt *Link, s loader.Sym) int64 {
	if size, _, _, ok := cellType(ctxt, s); ok {
		return size
	}
	return decodetypeSize(ctxt.Arch, ctxt.loader.Data(s))
}

// cellPtrdata is decodetypePtrdata for such a type.
func cellPtrdata(ctxt *Link, s loader.Sym) int64 {
	if _, ptrdata, _, ok := cellType(ctxt, s); ok {
		return ptrdata
	}
	return decodetypePtrdata(ctxt.Arch, ctxt.loader.Data(s))
}

// cellMask adds the pointers of a type of the process to the program of the collector.
func (p *GCProg) cellMask(off int64, s loader.Sym) bool {
	_, ptrdata, mask, ok := cellType(p.ctxt, s)
	if !ok {
		return false
	}
	for i := int64(0); i < ptrdata/8; i++ {
		if mask[i/8]>>uint(i%8)&1 != 0 {
			p.w.Ptr(off/8 + i)
		}
	}
	return true
}

// cellDump writes the side table.
func cellDump(ctxt *Link) {
	out := os.Getenv("CELLS_DUMP")
	if out == "" {
		return
	}
	ldr := ctxt.loader
	type record struct {
		hash uint64
		body []byte
	}
	var records []record
	seen := map[uint64]bool{}
	for i, n := 1, ldr.NDef(); i < n; i++ {
		s := loader.Sym(i)
		name := ldr.SymName(s)
		if !strings.HasPrefix(name, "type:") || strings.HasPrefix(name, "type:.") ||
			!ldr.IsGoType(s) || len(ldr.Data(s)) < 48 {
			continue
		}
		d := ldr.Data(s)
		size, ptrdata := decodetypeSize(ctxt.Arch, d), decodetypePtrdata(ctxt.Arch, d)
		h := cellHash(name)
		if ptrdata > cellMaxMask || seen[h] {
			continue
		}
		seen[h] = true
		mask := make([]byte, (ptrdata/8+7)/8)
		cellFill(ctxt, mask, 0, s)
		b := binary.LittleEndian.AppendUint64(nil, uint64(size))
		b = binary.LittleEndian.AppendUint64(b, uint64(ptrdata))
		records = append(records, record{h, append(b, mask...)})
	}
	sort.Slice(records, func(i, j int) bool { return records[i].hash < records[j].hash })
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(records)))
	var blob []byte
	for _, r := range records {
		head = binary.LittleEndian.AppendUint64(head, r.hash)
		head = binary.LittleEndian.AppendUint32(head, uint32(8+16*len(records)+len(blob)))
		head = binary.LittleEndian.AppendUint32(head, uint32(len(r.body)))
		blob = append(blob, r.body...)
	}
	if err := os.WriteFile(out, append(head, blob...), 0o644); err != nil {
		Exitf("cells: %v", err)
	}
}

// cellFill sets the bits of the pointers of type t at offset off.
func cellFill(ctxt *Link, mask []byte, off int64, t loader.Sym) {
	ldr, arch := ctxt.loader, ctxt.Arch
	d := ldr.Data(t)
	ptrdata := decodetypePtrdata(arch, d)
	if ptrdata == 0 {
		return
	}
	switch decodetypeKind(arch, d) {
	case abi.Array:
		elem := decodetypeArrayElem(ctxt, arch, t)
		size := decodetypeSize(arch, ldr.Data(elem))
		for i := int64(0); i < decodetypeArrayLen(ldr, arch, t); i++ {
			cellFill(ctxt, mask, off+i*size, elem)
		}
	case abi.Struct:
		for i := 0; i < decodetypeStructFieldCount(ldr, arch, t); i++ {
			cellFill(ctxt, mask, off+decodetypeStructFieldOffset(ldr, arch, t, i),
				decodetypeStructFieldType(ctxt, arch, t, i))
		}
	default:
		own := decodetypeGcmask(ctxt, t)
		for i := int64(0); i < ptrdata/8; i++ {
			if own[i/8]>>uint(i%8)&1 != 0 {
				mask[(off/8+i)/8] |= 1 << uint((off/8+i)%8)
			}
		}
	}
}
