<?php
namespace Sandgate;

/** Functions of the operating system that PHP does not offer. */
final class Libc
{
    private const EINTR = 4;
    /** C's text goes out at the end of each line, so that it keeps its place between PHP's. */
    private const LINES = 1;
    private const FIONREAD = 0x541B;
    private const SYS_CLONE = 56;
    private const CLONE_PARENT = 0x8000;

    private \FFI $c;
    private \FFI\CData $buffer;
    private \FFI\CData $count;
    private \FFI\CData $poll;
    /** @var \FFI[] keeps the types of shared memory alive */
    private array $declared = [];

    public function __construct()
    {
        $this->c = \FFI::cdef('
            typedef struct { int fd; short events, revents; } Poll;
            long read(int fd, void *to, size_t n);
            long write(int fd, const char *from, size_t n);
            int poll(Poll *list, unsigned long n, int milliseconds);
            int ioctl(int fd, unsigned long what, ...);
            int fcntl(int fd, int what, ...);
            int open(const char *path, int flags, ...);
            int close(int fd);
            int dup2(int from, int to);
            long lseek(int fd, long offset, int whence);
            void *mmap(void *at, size_t n, int protection, int flags, int fd, long offset);
            long syscall(long number, ...);
            int *__errno_location(void);
            int fflush(void *stream);
            int setvbuf(void *stream, char *buffer, int mode, size_t size);
            extern void *stdout;
        ');
        $this->buffer = $this->c->new('char[65536]');
        $this->count = $this->c->new('int');
        $this->poll = $this->c->new('Poll[1]');
        $this->c->setvbuf($this->c->stdout, null, self::LINES, 0);
    }

    /** Writes what C code has printed and not yet written. */
    public function flush(): void
    {
        $this->c->fflush(null);
    }

    /** Reads at most $n bytes; '' at the end, null if a signal came first. */
    public function read(int $fd, int $n): ?string
    {
        $got = $this->c->read($fd, $this->buffer, min($n, 65536));
        if ($got < 0) {
            return $this->c->__errno_location()[0] === self::EINTR ? null : '';
        }
        return \FFI::string($this->buffer, $got);
    }

    /** Writes everything. Returns false if the reader has gone. */
    public function write(int $fd, string $data): bool
    {
        $left = \strlen($data);
        while (true) {
            $n = $this->c->write($fd, $data, $left);
            if ($n === $left) {
                return true;
            }
            if ($n < 0) {
                if ($this->c->__errno_location()[0] !== self::EINTR) {
                    return false;
                }
                continue;
            }
            $data = substr($data, $n);
            $left -= $n;
        }
    }

    /** Returns whether there is something to read within some milliseconds. */
    public function readable(int $fd, int $milliseconds): bool
    {
        $this->poll[0]->fd = $fd;
        $this->poll[0]->events = 1;
        return $this->c->poll($this->poll, 1, $milliseconds) > 0;
    }

    /** Returns how many bytes a pipe holds. */
    public function unread(int $fd): int
    {
        return $this->c->ioctl($fd, self::FIONREAD, \FFI::addr($this->count)) < 0 ? 0 : $this->count->cdata;
    }

    /** Closes a descriptor in programs that are started. */
    public function closeOnExec(int $fd): void
    {
        $this->c->fcntl($fd, 2, 1);
    }

    /**
     * Forks a sibling: a child of this process's parent. So it is not among the children that user
     * code counts or waits for. Returns 0 in the new process.
     */
    public function forkSibling(): int
    {
        return $this->c->syscall(self::SYS_CLONE, self::CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    }

    /** Returns memory that forks share, of a type in $declaration. */
    public function shared(string $declaration, string $type): \FFI\CData
    {
        $this->declared[] = $ffi = \FFI::cdef($declaration);
        return $ffi->cast("$type *", $this->c->mmap(null, 4096, 3, 0x21, -1, 0))[0];
    }

    /**
     * Separates this process's descriptors from $first on: regular files are opened again at their
     * position, without the locks; all others, pipes and connections, become /dev/null. The numbers
     * stay.
     */
    public function part(int $first): void
    {
        clearstatcache();
        foreach (scandir('/proc/self/fd') as $name) {
            $fd = (int) $name;
            // The folder's own descriptor is closed by now. An error handler of the user would get a
            // warning, also with @.
            if ($fd < $first || !is_link("/proc/self/fd/$fd")) {
                continue;
            }
            $target = readlink("/proc/self/fd/$fd");
            $new = -1;
            if ($target[0] === '/' && is_file("/proc/self/fd/$fd")) {
                $flags = $this->c->fcntl($fd, 3) & 0o6003; // the mode, O_APPEND and O_NONBLOCK
                $new = $this->c->open("/proc/self/fd/$fd", $flags);
                if ($new < 0) {
                    continue; // it stays shared
                }
                $this->c->lseek($new, $this->c->lseek($fd, 0, 1), 0);
            } elseif ($target[0] === '/' && !str_starts_with($target, '/dev/')) {
                continue; // a folder
            }
            $new = $new >= 0 ? $new : $this->c->open('/dev/null', 2);
            $this->c->dup2($new, $fd);
            $this->c->close($new);
        }
    }
}
