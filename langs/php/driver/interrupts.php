<?php
namespace Sandgate;

/** Thrown into a cell that is interrupted. */
final class Interrupted extends \Error {}

/**
 * What SIGINT does. The first throws Interrupted into the cell, so that its finally blocks run. When the cell goes on
 * nevertheless, the supervisor sends HARD, which ends it as exit does: nothing can catch that.
 *
 * While the driver is at work for a cell it holds both back: enter() and leave() stand around that.
 */
final class Interrupts
{
    /** Milliseconds that a cell has to unwind before it is pressed again. */
    private const PAUSE = 90;

    /** How long the supervisor gets to notice what the kernel has noticed, in tenths of a millisecond. */
    private const PATIENCE = 3000;

    /** How much later than a signal the request that announces it may come, in nanoseconds. */
    private const ANNOUNCED = 50_000_000;

    private int $held = 1;
    private int $last = 0; // when something was thrown, in nanoseconds
    private ?\Closure $handler = null;
    private bool $active = false;
    private int $pending = 0; // a signal that came while they were held
    private int $stray = 0; // when one came while no cell was at work, in nanoseconds; 0 for none
    private bool $told = false; // one came since the last cell began
    public bool $exitable = true; // exit would be stopped, and not end the process
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
     * Waits for the supervisor, which may be slower, to notice the interrupts of the last cell: it would take them for
     * the next one's. (One that user code sends to the kernel alone costs the time that is given for that.)
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
     * For how many milliseconds the request may still come that says which cell a signal was for that came between two:
     * the one before, and late, or the one that is about to begin. 0 for what is there already, null for no such signal.
     */
    public function unannounced(): ?int
    {
        return $this->stray === 0 ? null : max(0, intdiv($this->stray + self::ANNOUNCED - hrtime(true), 1_000_000));
    }

    /** That request has come, for a cell that is over or at work, or none will. */
    public function announced(): void
    {
        $this->stray = 0;
    }

    /** It has come, and the signal is for the cell that has begun. */
    public function early(): void
    {
        $this->stray = 0;
        $this->shared->handled = 1;
        $this->pending = max($this->pending, SIGINT);
    }

    /** A cell begins, held: a signal from now on is for it, and one that was before waits for its announcement. */
    public function begin(): void
    {
        if (!pcntl_async_signals() || pcntl_signal_get_handler(SIGINT) !== $this->handler) {
            $this->install(); // a cell has changed it
        }
        $this->shared->handled = 0;
        [$this->active, $this->thrown, $this->held, $this->pending] = [true, false, 1, 0];
        $this->exitable = true;
    }

    /** A cell is over: what comes from now on comes too late. */
    public function end(): void
    {
        [$this->active, $this->pending, $this->held] = [false, 0, 1];
        // Behind a signal whose handler has thrown, PHP leaves others lying.
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

    /** Throws what is pending at a point where the driver can be left. */
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

    /** The same as SIGINT, for a call that has been tried again after that. A handler of the user's has had its signal. */
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
            // Without arguments in its trace: those of a call that PHP 8.4 makes without a frame are freed by now,
            // and reading them breaks the heap.
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

    /** Whether the supervisor's signal is for the cell at work. */
    private function meant(): bool
    {
        return $this->active && $this->shared->meant === $this->shared->sequence;
    }

    /** Whether a signal is for the cell, now. */
    private function mine(int $signal): bool
    {
        if (getmypid() !== $this->kernel) { // a fork of the user's
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
        $this->engine->enableOutput();
        if ($this->held > 0) {
            $this->pending = max($this->pending, $signal);
            return false;
        }
        return true;
    }
}
