<?php
namespace Sandgate;

/** Thrown into an interrupted cell. */
final class Interrupted extends \Error {}

/**
 * Handles SIGINT. The first one throws Interrupted into the cell, so that its finally blocks run.
 * If the cell continues all the same, the supervisor sends HARD, which ends it as exit does:
 * nothing can catch that.
 *
 * While the driver works for a cell it holds both back, between enter() and leave().
 */
final class Interrupts
{
    /** Milliseconds that a cell gets to unwind before the next interrupt. */
    private const PAUSE = 90;

    /**
     * How long the supervisor gets to notice the interrupts that the kernel has noticed, in tenths
     * of a millisecond.
     */
    private const PATIENCE = 3000;

    /** How much later than a signal its announcement may arrive, in nanoseconds. */
    private const ANNOUNCED = 50_000_000;

    private int $held = 1;
    private int $last = 0; // time of the last throw, in nanoseconds
    private ?\Closure $handler = null;
    private bool $active = false;
    private int $pending = 0; // a signal that came while signals were held back
    private int $stray = 0; // time of a signal that came while no cell was running, in nanoseconds; 0 means none
    private bool $told = false; // a signal came since the last cell began
    private int $signalled = 0; // the last cell that got a signal while it was running
    public bool $exitable = true; // exit would end the cell, and not the process
    public private(set) bool $thrown = false;

    public function __construct(private \FFI\CData $shared, private Engine $engine, private int $kernel) {}

    public function install(): void
    {
        pcntl_async_signals(true);
        $this->handler ??= $this->soft(...);
        pcntl_signal(SIGINT, $this->handler, false);
        pcntl_signal(Supervisor::AGAIN, $this->again(...), false);
        pcntl_signal(Supervisor::HARD, $this->hard(...), false);
    }

    public function movedTo(int $kernel): void
    {
        $this->kernel = $kernel;
    }

    /**
     * Waits until the supervisor, which may be slower, has noticed the interrupts of the last cell:
     * otherwise it would assign them to the next one. (If user code sends a signal only to the
     * kernel, this costs the whole waiting time.)
     */
    public function settle(): void
    {
        for ($i = 0; $i < self::PATIENCE && $this->told && !$this->shared->noticed; $i++) {
            usleep(100);
        }
        $this->told = false;
        $this->shared->noticed = 0;
    }

    /**
     * A signal that came between two cells is for the previous cell, if it is late, or for the next
     * one. Returns for how many milliseconds the request that names the cell may still arrive. 0
     * means that it must already be there, null means that there is no such signal.
     */
    public function unannounced(): ?int
    {
        return $this->stray === 0 ? null : max(0, intdiv($this->stray + self::ANNOUNCED - hrtime(true), 1_000_000));
    }

    /**
     * The request of a cell that has ended has arrived. If its signal came during the cell, then the
     * signal between the cells is another one.
     */
    public function announced(int $cell): void
    {
        if ($cell !== $this->signalled) {
            $this->stray = 0;
        }
    }

    /** No request arrives: user code has sent the signal. */
    public function forget(): void
    {
        $this->stray = 0;
    }

    /** It has arrived, and the signal is for the cell that has begun. */
    public function early(): void
    {
        $this->stray = 0;
        $this->shared->handled = 1;
        $this->pending = max($this->pending, SIGINT);
    }

    /**
     * A cell begins, with signals held back: a signal from now on is for it, and an earlier one
     * waits for its announcement.
     */
    public function begin(): void
    {
        if (!pcntl_async_signals() || pcntl_signal_get_handler(SIGINT) !== $this->handler) {
            $this->install(); // a cell has changed it
        }
        $this->shared->handled = 0;
        [$this->active, $this->thrown, $this->held, $this->pending] = [true, false, 1, 0];
        $this->exitable = true;
    }

    /** A cell has ended: a signal from now on comes too late. */
    public function end(): void
    {
        [$this->active, $this->pending, $this->held] = [false, 0, 1];
        // After a signal whose handler has thrown, PHP does not handle the waiting ones.
        pcntl_signal_dispatch();
    }

    public function enter(): void
    {
        $this->held++;
    }

    public function leave(): void
    {
        if (--$this->held === 0 && $this->pending !== 0) {
            $pending = $this->pending;
            $this->pending = 0;
            $pending === SIGINT ? $this->soft() : $this->hard();
        }
    }

    /** Throws a pending interrupt at a point where the driver can be left. */
    public function check(): void
    {
        if ($this->pending !== 0) {
            $held = $this->held;
            $this->held = 1;
            try {
                $this->leave();
            } finally {
                $this->held = $held;
            }
        }
    }

    /**
     * The same as SIGINT, for a call that was retried after SIGINT. A user's own handler has
     * already had its signal.
     */
    private function again(): void
    {
        if ($this->meant() && pcntl_signal_get_handler(SIGINT) === $this->handler) {
            $this->soft();
        }
    }

    private function soft(): void
    {
        if ($this->mine(SIGINT) && !$this->thrown) {
            $this->thrown = true;
            $this->last = hrtime(true);
            // Without arguments in its trace: the arguments of a call that PHP 8.4 makes without a
            // frame are already freed, and reading them corrupts the heap.
            $arguments = ini_set('zend.exception_ignore_args', '1');
            $interrupted = new Interrupted('the cell was interrupted');
            ini_set('zend.exception_ignore_args', $arguments);
            throw $interrupted;
        }
    }

    private function hard(): void
    {
        if (!$this->meant() || !$this->mine(Supervisor::HARD)) {
            return;
        }
        if (!$this->thrown) {
            $this->soft();
        } elseif ($this->exitable && hrtime(true) - $this->last > self::PAUSE * 1_000_000) {
            $this->last = hrtime(true);
            exit(130);
        }
    }

    /** Returns whether the supervisor's signal is for the running cell. */
    private function meant(): bool
    {
        return $this->active && $this->shared->meant === $this->shared->sequence;
    }

    /** Returns whether a signal is for the cell, now. */
    private function mine(int $signal): bool
    {
        if (getmypid() !== $this->kernel) { // a fork by user code
            pcntl_signal(SIGINT, SIG_DFL);
            posix_kill(getmypid(), SIGINT);
            return false;
        }
        $this->told = true;
        if (!$this->active) {
            $this->stray = hrtime(true);
            return false;
        }
        $this->shared->handled = 1;
        $this->signalled = $this->shared->cell;
        $this->engine->enableOutput();
        if ($this->held > 0) {
            $this->pending = max($this->pending, $signal);
            return false;
        }
        return true;
    }
}
