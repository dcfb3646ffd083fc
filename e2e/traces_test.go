package e2e

import (
	"crypto/rand"
	"fmt"
	"testing"
)

// TestAbuse27_NoTraces leaves marks in a sandbox. No later sandbox has any of them.
func TestAbuse27_NoTraces(t *testing.T) {
	mark := "mark" + rand.Text()
	first := open(t, server)
	first.run("ok", fmt.Sprintf(`
import os, socket, subprocess
mark = %q
for place in ('/tmp', '/var/tmp', '/dev/shm', os.path.expanduser('~')):
    open(place + '/' + mark, 'w').write(mark)
os.environ['MARK'] = mark
left = subprocess.Popen(['setsid', 'sh', '-c', 'exec -a "$0" sleep 1000', mark])
port = socket.create_server(('127.0.0.1', 4949))
os.link(os.path.expanduser('~/' + mark), os.path.expanduser('~/.profile.' + mark))`, mark))
	const search = `
import os, socket, subprocess
mark = os.environ.pop('SEEK')
found = [at for top in ('/tmp', '/var/tmp', '/dev/shm', os.path.expanduser('~'), '/run')
         for at, _, names in os.walk(top) for n in names if mark in n]
def text(name):
    try: return open(name, 'rb').read()
    except OSError: return b''  # of another user, or it has ended
found += [p for p in os.listdir('/proc') if p.isdigit() and p != str(os.getpid())
          and mark.encode() in text(f'/proc/{p}/cmdline') + text(f'/proc/{p}/environ')]
found += ['environment'] * ('MARK' in os.environ) + ['variable'] * ('left' in globals())
with socket.socket() as s: found += ['port'] * (s.connect_ex(('127.0.0.1', 4949)) == 0)
print(found)`
	seek := fmt.Sprintf("import os; os.environ['SEEK'] = %q\n", mark)
	if got := first.run("ok", seek+search).stdout; got == "[]\n" {
		t.Fatal("the marks are not found where they are")
	}
	check(t, first.client.DeleteSession(first.ctx, first.id))
	for range 3 {
		s := open(t, server)
		if got := s.run("ok", seek+search).stdout; got != "[]\n" {
			t.Errorf("a new sandbox has %s", got)
		}
	}
}
