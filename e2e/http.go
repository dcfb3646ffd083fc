package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Do sends a request with the server's token. A body of []byte is sent unchanged,
// any other body as JSON.
func (s *Server) Do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var r io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case []byte:
		r, kind = bytes.NewReader(b), "application/octet-stream"
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, r)
	if err != nil {
		return nil, err
	}
	if r != nil {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	return http.DefaultClient.Do(req)
}

// Get reads a JSON answer into v and returns its status.
func (s *Server) Get(ctx context.Context, path string, v any) (int, error) {
	return s.JSON(ctx, http.MethodGet, path, nil, v)
}

// JSON sends a request and reads its JSON answer into v, for every status.
func (s *Server) JSON(ctx context.Context, method, path string, body, v any) (int, error) {
	res, err := s.Do(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || v == nil || len(raw) == 0 {
		return res.StatusCode, err
	}
	return res.StatusCode, json.Unmarshal(raw, v)
}
