package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Limits of an upload.
const (
	// partSize is the size of a part. It doubles after every growth parts, so that the 10,000 parts
	// that S3 allows hold 300 GiB.
	partSize = 8 << 20
	growth   = 2500
	maxParts = 10_000
	// parallel is the number of parts that are sent while the next one is filled.
	parallel = 2
	// partLimit bounds the sending of one part with all its attempts. abortLimit bounds the abort
	// of an upload that failed.
	partLimit  = 2 * time.Minute
	abortLimit = 10 * time.Second
)

// Put creates an object. It sends parts if the object is larger than one part.
func (s *S3) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	const op = "blob.put"
	if err := check(op, name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &upload{s: s, ctx: ctx, cancel: cancel, name: name, turns: make(chan struct{}, parallel)}
	v := newChecksumWriter(u)
	err := write(v)
	if err == nil {
		err = v.finish()
	}
	if err == nil {
		err = u.complete()
	}
	u.work.Wait()
	if failed := u.failure(); failed != nil {
		err = failed // the error of write only follows from this one
	}
	if err != nil {
		if u.id != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortLimit)
			defer cancel()
			_ = s.abort(ctx, name, u.id) // Tidy does it if this fails
		}
		return s.fault(op, name, err)
	}
	return nil
}

// upload is an object that is being sent.
type upload struct {
	s      *S3
	ctx    context.Context
	cancel context.CancelFunc // called when the first part fails
	name   string
	id     *string // nil until the second part begins
	buf    []byte  // the part that is being filled
	begun  int     // the number of parts that have begun
	turns  chan struct{}
	work   sync.WaitGroup

	mu    sync.Mutex // guards all below
	parts []types.CompletedPart
	err   error // the error of the first part that failed
}

// Write fills parts and sends each full one.
func (u *upload) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		if err := u.ctx.Err(); err != nil {
			return done, err
		}
		size := partSize << (u.begun / growth)
		if len(u.buf) == size {
			if err := u.send(); err != nil {
				return done, err
			}
		}
		n := min(len(p)-done, size-len(u.buf))
		u.buf = append(u.buf, p[done:done+n]...)
		done += n
	}
	return done, nil
}

// send sends the full part in a request of its own, in the background.
func (u *upload) send() error {
	if u.id == nil {
		if err := u.createMultipart(); err != nil {
			return err
		}
	}
	if u.begun == maxParts {
		return errors.New("an object of more than 10,000 parts")
	}
	u.begun++
	number, body := aws.Int32(int32(u.begun)), u.buf
	u.buf = nil
	select {
	case u.turns <- struct{}{}:
	case <-u.ctx.Done():
		return u.ctx.Err()
	}
	u.work.Go(func() {
		defer func() { <-u.turns }()
		ctx, cancel := context.WithTimeout(u.ctx, partLimit)
		defer cancel()
		out, err := u.s.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &u.s.bucket, Key: u.s.key(u.name), UploadId: u.id, PartNumber: number,
			Body: bytes.NewReader(body),
		})
		u.mu.Lock()
		defer u.mu.Unlock()
		if err == nil {
			u.parts = append(u.parts, types.CompletedPart{ETag: out.ETag, PartNumber: number})
		} else if u.err == nil {
			u.err = err
			u.cancel()
		}
	})
	return nil
}

func (u *upload) createMultipart() error {
	ctx, cancel := context.WithTimeout(u.ctx, answerLimit)
	defer cancel()
	out, err := u.s.client.CreateMultipartUpload(ctx,
		&s3.CreateMultipartUploadInput{Bucket: &u.s.bucket, Key: u.s.key(u.name)})
	if err == nil {
		u.id = out.UploadId
	}
	return err
}

// complete makes the object visible.
func (u *upload) complete() error {
	if u.id == nil {
		ctx, cancel := context.WithTimeout(u.ctx, partLimit)
		defer cancel()
		_, err := u.s.client.PutObject(ctx,
			&s3.PutObjectInput{
				Bucket: &u.s.bucket, Key: u.s.key(u.name),
				Body: bytes.NewReader(u.buf),
			})
		return err
	}
	if err := u.send(); err != nil {
		return err
	}
	u.work.Wait()
	if err := u.failure(); err != nil {
		return err
	}
	all := make([]types.CompletedPart, u.begun)
	for _, p := range u.parts {
		all[*p.PartNumber-1] = p
	}
	ctx, cancel := context.WithTimeout(u.ctx, partLimit)
	defer cancel()
	_, err := u.s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &u.s.bucket, Key: u.s.key(u.name), UploadId: u.id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: all},
	})
	return err
}

func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// abort ends an upload without creating an object.
func (s *S3) abort(ctx context.Context, name string, id *string) error {
	const op = "blob.abort"
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &s.bucket,
		Key:    s.key(name), UploadId: id,
	})
	return s.fault(op, name, err)
}
