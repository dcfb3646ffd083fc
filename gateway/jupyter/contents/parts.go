package contents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"strconv"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxParts is the largest number of parts of a save.
const maxParts = 10_000

// uploads is the folder of the parts of saves that have not ended.
const uploads = ".cache/jupyter-uploads"

// savePart stores one part of a content. The last part joins all of them to the file, so that any
// gateway can take any part, and the file has the old content until then.
func (f *Files) savePart(ctx context.Context, name string, p Saved, data []byte) (Model, error) {
	const op = "contents.part"
	if p.Type != TypeFile {
		return Model{}, fault.Invalid(op, "type", "only a file can be saved in parts")
	}
	if p.Chunk < -1 || p.Chunk > maxParts {
		return Model{}, fault.Invalid(op, "chunk",
			"a part has a number up to %d, or -1 for the last one", maxParts)
	}
	sum := sha256.Sum256([]byte(name))
	folder := path.Join(uploads, hex.EncodeToString(sum[:16]))
	if p.Chunk == -1 {
		st, err := f.join(ctx, name, folder, data)
		if err != nil {
			return Model{}, err
		}
		return f.model(name, st, TypeFile), nil
	}
	if p.Chunk == 1 {
		if err := f.removeFolder(ctx, folder); err != nil {
			return Model{}, err
		}
		if err := f.call(ctx, protocol.OpFileMkdir, f.ref(folder), nil); err != nil {
			return Model{}, err
		}
	}
	st, err := f.write(ctx,
		protocol.FileWrite{FileRef: f.ref(path.Join(folder, strconv.Itoa(p.Chunk)))},
		bytes.NewReader(data))
	return f.model(name, st, TypeFile), err
}

func (f *Files) removeFolder(ctx context.Context, folder string) error {
	err := f.call(ctx, protocol.OpFileRemove,
		protocol.FileRemove{FileRef: f.ref(folder), Recursive: true}, nil)
	if fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field != "" {
		return nil
	}
	return err
}

// join writes the parts of a folder and the last one to a file, and removes the folder.
func (f *Files) join(ctx context.Context, name, folder string, last []byte,
) (protocol.File, error) {
	count, err := f.countParts(ctx, folder)
	if err != nil {
		return protocol.File{}, err
	}
	r, w := io.Pipe()
	go func() {
		var err error
		for i := 1; i <= count && err == nil; i++ {
			err = f.copyTo(ctx, w, path.Join(folder, strconv.Itoa(i)))
		}
		if err == nil {
			_, err = w.Write(last)
		}
		w.CloseWithError(err)
	}()
	st, err := f.write(ctx, protocol.FileWrite{FileRef: f.ref(name)}, r)
	_ = r.CloseWithError(io.ErrClosedPipe) // ends the goroutine
	if err != nil {
		return st, err
	}
	return st, f.removeFolder(ctx, folder)
}

// copyTo writes the content of a file to w.
func (f *Files) copyTo(ctx context.Context, w io.Writer, name string) error {
	var part protocol.FilePart
	r, err := f.Open(ctx, protocol.FileRead{FileRef: f.ref(name)}, &part)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

// countParts returns the number of parts in a folder. Errors: InvalidArgument if one is missing.
func (f *Files) countParts(ctx context.Context, folder string) (int, error) {
	count, highest, after := 0, 0, ""
	for {
		var page protocol.FileListing
		err := f.call(ctx, protocol.OpFileList,
			protocol.FileList{FileRef: f.ref(folder), Limit: 5000, After: after}, &page)
		if fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field != "" {
			break
		}
		if err != nil {
			return 0, err
		}
		for _, e := range page.Entries {
			n, _ := strconv.Atoi(path.Base(e.Path)) // only parts are there
			highest = max(highest, n)
		}
		count += len(page.Entries)
		if after = page.Next; after == "" {
			break
		}
	}
	if count == 0 || count != highest {
		return 0, fault.Invalid("contents.part", "chunk",
			"a part is missing, so begin again with the first one")
	}
	return count, nil
}
