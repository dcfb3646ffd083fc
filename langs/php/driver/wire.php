<?php
namespace Sandgate;

/** Frames on the driver's two private descriptors: 3 has requests, 4 takes replies and output. */
final class Wire
{
    public const CONTROL = 1;
    public const STDERR = 5;
    public const MESSAGE = 6;
    public const MAX_BODY = 8 << 20;

    private const IN = 3;
    private const OUT = 4;
    private const HEADER = 16;
    private const FLAG_CLEAR = 2;

    /**
     * How long the agent gets to read the output in descriptors 1 and 2, and how long it gets no
     * time after such a wait had no success.
     */
    private const PATIENCE = 0.2;
    private const PENALTY = 1.0;

    private float $impatientUntil = 0;

    public function __construct(private Libc $libc, private \FFI\CData $shared)
    {
        foreach ([self::IN, self::OUT] as $fd) {
            $libc->closeOnExec($fd);
        }
    }

    /** A frame without the flag: it comes after the output in descriptors 1 and 2. */
    public static function frame(int $type, int $cell, string $body): string
    {
        return pack('NCCnNN', \strlen($body), $type, 0, 0, 0, $cell) . $body;
    }

    /**
     * Writes frames after which nothing is written to descriptors 1 and 2: the last ones of a cell.
     */
    public function last(string $frames): void
    {
        $this->shared->writing = 1;
        if (!$this->libc->write(self::OUT, $frames)) {
            $this->gone();
        }
        $this->shared->writing = 0;
    }

    /**
     * Writes a frame at its place among the output on descriptors 1 and 2. Earlier output there
     * must be read first. If they are empty, the frame has a flag, and then it comes before their
     * next output.
     */
    public function send(int $type, int $cell, string $body): void
    {
        $this->last(pack('NCCnNN', \strlen($body), $type, $this->settle() ? self::FLAG_CLEAR : 0, 0, 0, $cell) . $body);
    }

    private function settle(): bool
    {
        $libc = $this->libc;
        if ($libc->unread(1) + $libc->unread(2) === 0) {
            return true;
        }
        $end = hrtime(true) / 1e9 + self::PATIENCE;
        if ($end - self::PATIENCE < $this->impatientUntil) {
            return false;
        }
        do {
            usleep(50);
            if ($libc->unread(1) + $libc->unread(2) === 0) {
                return true;
            }
        } while (hrtime(true) / 1e9 < $end);
        $this->impatientUntil = $end + self::PENALTY;
        return false;
    }

    /**
     * Returns whether a request arrives within some milliseconds; -1 waits for one. Also returns
     * false after a signal.
     */
    public function waits(int $milliseconds): bool
    {
        return $this->libc->readable(self::IN, $milliseconds);
    }

    /**
     * Returns the next request. It reads no byte more, so that a process that takes over finds the
     * rest. Null if the request is invalid.
     */
    public function receive(): ?array
    {
        $header = unpack('Nsize/Ctype', $this->exactly(self::HEADER));
        if ($header['size'] > self::MAX_BODY) {
            fwrite(fopen('php://stderr', 'w'), "a request of {$header['size']} bytes: the limit is " . self::MAX_BODY . "\n");
            $this->gone(1);
        }
        $body = $this->exactly($header['size']);
        if ($header['type'] !== self::CONTROL) {
            return null;
        }
        $request = json_decode($body, true, 64);
        return \is_array($request) ? $request : null;
    }

    private function exactly(int $n): string
    {
        $data = '';
        while (($left = $n - \strlen($data)) > 0) {
            $part = $this->libc->read(self::IN, $left);
            if ($part === '') {
                $this->gone();
            }
            $data .= $part;
        }
        return $data;
    }

    /** The agent has disconnected. */
    private function gone(int $status = 0): never
    {
        $this->shared->ending = 1;
        $this->shared->status = $status;
        posix_kill(getmypid(), SIGKILL); // without destructors, because nothing can be sent
        exit($status);
    }
}
