<?php
namespace Sandgate;

/**
 * A waiting copy of the kernel, made by a fork while the kernel is idle. It takes over when the
 * kernel dies. It is a sibling of the kernel, so the kernel stays the same process for its child
 * processes and its connections.
 */
final class Savegame
{
    /** The first of the user's descriptors: 0 to 2 are standard, 3 and 4 the driver's. */
    private const FIRST_DESCRIPTOR = 5;

    /**
     * How long to wait until a savegame has separated its descriptors, in tenths of a millisecond.
     */
    private const PATIENCE = 2000;

    public function __construct(private Libc $libc, private \FFI\CData $shared) {}

    /**
     * Makes a new savegame that replaces the old one. Returns true in a process that has just taken
     * over.
     */
    public function make(): bool
    {
        pcntl_sigprocmask(SIG_SETMASK, [...range(1, 31), ...range(34, 64)], $before);
        $this->shared->parted = 0;
        $pid = $this->libc->forkSibling();
        if ($pid !== 0) {
            $old = $this->shared->savegame;
            if ($pid > 0) {
                $this->shared->savegame = $pid;
                $this->shared->saved = $this->shared->count;
            }
            if ($old > 0 && $pid > 0) {
                posix_kill($old, SIGKILL);
            }
            pcntl_sigprocmask(SIG_SETMASK, $before);
            return false;
        }
        $this->libc->part(self::FIRST_DESCRIPTOR);
        $this->shared->parted = 1;
        $info = [];
        while (@pcntl_sigwaitinfo([Supervisor::TAKE_OVER], $info) !== Supervisor::TAKE_OVER);
        while (@pcntl_sigtimedwait([SIGINT, Supervisor::AGAIN, Supervisor::HARD], $info, 0, 1) > 0); // for the process that died
        pcntl_sigprocmask(SIG_SETMASK, $before);
        return true;
    }

    /**
     * Waits until the savegame holds none of the kernel's pipes, connections and locks: a cell
     * might close one and rely on that.
     */
    public function await(): void
    {
        for ($i = 0; $i < self::PATIENCE && $this->shared->savegame > 0 && !$this->shared->parted; $i++) {
            usleep(100);
        }
    }

    /** Ends the savegame: its state must not come back. */
    public function drop(): void
    {
        if ($this->shared->savegame > 0) {
            posix_kill($this->shared->savegame, SIGKILL);
            $this->shared->savegame = 0;
        }
    }
}
