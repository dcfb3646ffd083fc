<?php
namespace Sandgate;

/** Frames on the driver's two private descriptors: 3 brings requests, 4 takes replies and output. */
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

    /** How long the agent gets to read what descriptors 1 and 2 hold, and how long it gets none after that was in vain. */
    private const PATIENCE = 0.2;
    private const PENALTY = 1.0;

    private float $impatientUntil = 0;

    public function __construct(private Libc $libc, private \FFI\CData $shared)
    {
        foreach ([self::IN, self::OUT] as $fd) {
            $libc->closeOnExec($fd);
        }
    }

    /** A frame without the flag: it goes after what descriptors 1 and 2 hold. */
    public static function frame(int $type, int $cell, string $body): string
    {
        return pack('NCCnNN', \strlen($body), $type, 0, 0, 0, $cell) . $body;
    }

    /** Writes frames that nothing on descriptors 1 and 2 follows: the last of a cell. */
    public function last(string $frames): void
    {
        $this->shared->writing = 1;
        if (!$this->libc->write(self::OUT, $frames)) {
            $this->gone();
        }
        $this->shared->writing = 0;
    }

    /**
     * Writes a frame in its place among what goes to descriptors 1 and 2: what they hold is let go first. While they
     * hold nothing, the frame says so, and then it goes before what they get next.
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

    /** Whether a request comes within some milliseconds; -1 waits for one. False after a signal, too. */
    public function waits(int $milliseconds): bool
    {
        return $this->libc->readable(self::IN, $milliseconds);
    }

    /**
     * The next request. It takes no byte more, so that whoever takes over finds the rest. Null when it is none.
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

    /** There is nobody to work for. */
    private function gone(int $status = 0): never
    {
        $this->shared->ending = 1;
        $this->shared->status = $status;
        posix_kill(getmypid(), SIGKILL); // no destructor has anybody to speak to
        exit($status);
    }
}
