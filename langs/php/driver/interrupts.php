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

    private int $held = 1;
    private int $last = 0; // when something was thrown, in nanoseconds
    private ?\Closure $handler = null;
    private bool $active = false;
    private int $pending = 0; // a signal that came while they were held
    private bool $early = false; // one came when a request was on its way: the cell to come is meant
    private bool $told = false; // one came since the last cell began
    public bool $arriving = false; // a request is being read
    public bool $exitable = true; // exit would be stopped, and not end the process
    public private(set) bool $thrown = false;

    public function __construct(private \FFI\CData $shared, private Engine $engine, private Wire $wire, private int $kernel) {}

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

    /** A cell begins, held. */
    public function begin(): void
    {
        if (!pcntl_async_signals() || pcntl_signal_get_handler(SIGINT) !== $this->handler) {
            $this->install(); // a cell has changed it
        }
        [$this->active, $this->thrown, $this->held] = [true, false, 1];
        $this->shared->handled = (int) $this->early;
        $this->pending = $this->early ? SIGINT : 0;
        $this->early = $this->arriving = false;
        $this->exitable = true;
    }

    /** A cell is over: what comes from now on comes too late. */
    public function end(): void
    {
        [$this->active, $this->pending, $this->held] = [false, 0, 1];
        // Behind a signal whose handler has thrown, PHP leaves others lying: taken later, with the next request on its
        // way, they would pass for that cell's.
        pcntl_signal_dispatch();
        $this->early = $this->arriving = false;
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
            // The agent sends a cell before the interrupt that is for it: with none on its way, this one comes late.
            $this->early = $this->early || $this->arriving || $this->wire->waits(0);
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
