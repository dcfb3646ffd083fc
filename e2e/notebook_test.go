package e2e

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/notebook"
)

// stored returns the stored notebooks of a session.
func (s *session) stored() []notebook.Notebook {
	s.t.Helper()
	var l notebook.List
	status, err := server.Get(s.ctx, "/v1/notebooks?session="+url.QueryEscape(s.id), &l)
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("%d %v", status, err)
	}
	return l.Notebooks
}

// TestLostSandboxKeepsNotebook: a sandbox that takes too much memory is lost, and the notebooks that
// were saved in it are not. One of them is opened in another session. A session that a user deletes
// takes its notebooks with it.
func TestLostSandboxKeepsNotebook(t *testing.T) {
	s := open(t, server)
	c, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	first := `{"cells":[{"id":"a","cell_type":"code","source":["important = 1"],"outputs":[]}],"nbformat":4}`
	second := strings.Replace(first, "important = 1", strings.Repeat("ü", notebook.MaxPart), 1)
	save := func(text string) {
		t.Helper()
		_, err := c.Upload(s.ctx, s.id, "work.ipynb", 0o644, strings.NewReader(text))
		check(t, err)
	}
	save(first)
	found := s.stored()
	if len(found) != 1 || found[0].Path != "/home/user/work.ipynb" || found[0].Bytes != int64(len(first)) {
		t.Fatalf("the stored notebooks are %+v", found)
	}
	one := "/v1/notebooks/" + found[0].ID
	versions := func() notebook.Versions {
		t.Helper()
		var v notebook.Versions
		status, err := server.Get(s.ctx, one+"/versions", &v)
		if err != nil || status != http.StatusOK {
			t.Fatalf("%d %v", status, err)
		}
		return v
	}
	var named notebook.Version
	status, err := server.JSON(s.ctx, "PATCH", one+"/versions/"+versions().Versions[0].ID,
		map[string]string{"name": "before the change"}, &named)
	if err != nil || status != http.StatusOK || named.Name != "before the change" {
		t.Fatalf("%d %v: %+v", status, err, named)
	}
	save(second)

	// The cell ends with the sandbox.
	cell, err := s.kernel.Execute(s.ctx,
		"import subprocess\n"+
			"code = 'b = []\\nwhile True: b.append(bytearray(b\"x\" * (8 << 20)))'\n"+
			"subprocess.run(['python3', '-c', code])", wire.ExecuteOptions{})
	for err == nil {
		_, err = cell.Next(s.ctx)
	}
	lost, err := c.Session(s.ctx, s.id)
	if err != nil || lost.State != "lost" {
		t.Fatalf("the session is %s, %v", lost.State, err)
	}
	read := func(v notebook.Version) (text string) {
		t.Helper()
		for offset := "0"; ; {
			var p struct {
				notebook.Part
				Error *fault.Public `json:"error"`
			}
			status, err := server.Get(s.ctx, one+"/versions/"+v.ID+"?offset="+offset, &p)
			if err != nil || status != http.StatusOK {
				t.Fatalf("%d %v %+v", status, err, p.Error)
			}
			if text += p.Text; p.Next == 0 {
				return text
			}
			offset = strconv.FormatInt(p.Next, 10)
		}
	}
	all := versions().Versions
	if len(all) != 2 || read(all[0]) != second || read(all[1]) != first ||
		all[1].Name != named.Name {
		t.Fatalf("the versions are %+v", all)
	}
	next := open(t, server)
	_, err = c.Upload(next.ctx, next.id, "work.ipynb", 0o644, strings.NewReader(read(all[0])))
	check(t, err)
	check(t, c.DeleteSession(next.ctx, next.id))
	if left := next.stored(); len(left) != 0 {
		t.Errorf("a deleted session left %+v", left)
	}
	if status, err := server.JSON(s.ctx, "DELETE", one, nil, nil); err != nil || status/100 != 2 {
		t.Errorf("%d %v", status, err)
	}
	if left := s.stored(); len(left) != 0 {
		t.Errorf("deleted, and there are %+v", left)
	}
}
