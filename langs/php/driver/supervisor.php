<?php
namespace Sandgate;

/**
 * The process that the agent knows. It loads very little, has no state of the user, and makes sure
 * that there is a kernel: when the kernel dies, the savegame takes over; if there is no savegame,
 * the supervisor ends as the kernel did.
 *
 * An interrupt reaches the kernel directly, because it is sent to the process group. The supervisor
 * watches its effect.
 */
final class Supervisor
{
    /**
     * The signal that makes a savegame take over, and makes a kernel end its cell whatever the cell
     * catches.
     */
    public const TAKE_OVER = 34;
    public const HARD = 35;
    /** The signal that repeats an interrupt to a kernel. */
    public const AGAIN = 36;

    /**
     * Milliseconds after an interrupt. PHP retries a read after a first signal, so there is a
     * second.
     */
    private const NUDGE = 50;
    private const HARD_AFTER = 200;
    private const CHILDREN_AFTER = 250;
    private const KILL_AFTER = 1200;

    private const SIGNALS = [SIGINT, SIGTERM, SIGCHLD];

    private ?int $sequence = null; // sequence of the interrupted cell
    private bool $early = false;   // the cell had not begun yet; the kernel knows whether the interrupt is for it
    private float $since = 0;
    private bool $again = false;   // the interrupt was sent again

    private function __construct(private \FFI\CData $shared, private int $kernel) {}

    /** Forks. Returns in the kernel only. */
    public static function start(\FFI\CData $shared): void
    {
        pcntl_sigprocmask(SIG_BLOCK, self::SIGNALS);
        $kernel = pcntl_fork();
        if ($kernel === 0) {
            pcntl_sigprocmask(SIG_UNBLOCK, self::SIGNALS);
            return;
        }
        if ($kernel < 0) {
            fwrite(STDERR, "the sandbox has as many processes as it may\n");
            exit(1);
        }
        (new self($shared, $kernel))->run();
    }

    private function run(): never
    {
        while (true) {
            $info = [];
            $signal = $this->sequence === null
                ? pcntl_sigwaitinfo(self::SIGNALS, $info)
                : @pcntl_sigtimedwait(self::SIGNALS, $info, 0, self::NUDGE * 1_000_000);
            match ($signal) {
                SIGCHLD => $this->collect(),
                SIGINT => $this->interrupted(),
                SIGTERM => $this->end($signal),
                default => null,
            };
            if ($this->sequence !== null) {
                $this->press();
            }
        }
    }

    private function collect(): void
    {
        while (($pid = pcntl_waitpid(-1, $status, WNOHANG)) > 0) {
            if ($pid !== $this->kernel) {
                continue; // a savegame that was replaced by a newer one
            }
            $next = $this->shared->savegame;
            $this->shared->savegame = 0;
            if ($this->shared->ending) {
                $this->end(0, $this->shared->status);
            }
            $this->shared->signal = pcntl_wifsignaled($status) ? pcntl_wtermsig($status) : 0;
            if ($next === 0 || !posix_kill($next, self::TAKE_OVER)) {
                $this->end($this->shared->signal, pcntl_wifexited($status) ? pcntl_wexitstatus($status) : 0);
            }
            $this->kernel = $next;
            $this->sequence = null;
        }
    }

    private function interrupted(): void
    {
        $early = !$this->shared->busy;
        $sequence = $this->shared->sequence + (int) $early;
        if ($sequence !== $this->sequence || $this->early !== $early) {
            $this->early = $early;
            $this->sequence = $sequence;
            $this->since = hrtime(true) / 1e6;
            $this->again = false;
        }
        $this->shared->noticed = 1;
    }

    /** Presses an interrupted cell that is still running. */
    private function press(): void
    {
        $past = hrtime(true) / 1e6 - $this->since;
        if ($this->early && !$this->shared->busy && $past < self::NUDGE) {
            return;
        }
        if (!$this->shared->busy || $this->shared->sequence !== $this->sequence || $this->early && !$this->shared->handled) {
            $this->sequence = null;
            return;
        }
        if ($past > self::KILL_AFTER && !$this->shared->writing) {
            $this->shared->pressed = 1;
            posix_kill($this->kernel, SIGKILL);
            return;
        }
        if ($past > self::CHILDREN_AFTER && !$this->shared->handled) {
            $this->tellChildren(SIGKILL, true); // it waits for a child that ignores the interrupt
        }
        $this->shared->meant = $this->sequence; // the cell may end, and another begin, before a signal arrives
        if ($past > self::HARD_AFTER) {
            posix_kill($this->kernel, self::HARD);
        } elseif ($past > self::NUDGE / 2 && !$this->shared->handled) {
            posix_kill($this->kernel, self::AGAIN);
            if (!$this->again) {
                $this->again = true;
                $this->tellChildren(SIGINT); // a child may have been made right after the interrupt
            }
        }
    }

    /**
     * Sends the kernel's descendants a signal, a parent before its children, so that a shell has no
     * time to report their end. With $own only those of the cell: processes that earlier cells have
     * started are left alone.
     */
    private function tellChildren(int $signal, bool $own = false): void
    {
        $since = 0.0; // in hundredths of a second since the machine's start, the unit of /proc
        if ($own) {
            // The start time of a process is rounded down to a hundredth; gVisor rounds its clock
            // to one. Both are of the clock that microtime has.
            $since = ((float) file_get_contents('/proc/uptime')) * 100 - (microtime(true) * 1000 - $this->shared->began) / 10 - 1.5;
        }
        $children = [];
        foreach (glob('/proc/[0-9]*/stat') as $file) {
            $stat = @file_get_contents($file) ?: '';
            $fields = explode(' ', substr($stat, (int) strrpos($stat, ')') + 2));
            if ((float) ($fields[19] ?? 0) >= $since) {
                $children[(int) ($fields[1] ?? 0)][] = (int) $stat;
            }
        }
        for ($found = $children[$this->kernel] ?? []; $found !== []; array_push($found, ...$children[$pid] ?? [])) {
            posix_kill($pid = array_shift($found), $signal);
        }
    }

    /** Ends the kernel and its savegame, and itself with the given signal or status. */
    private function end(int $signal, int $status = 0): never
    {
        foreach ([$this->kernel, $this->shared->savegame] as $pid) {
            if ($pid > 0) {
                posix_kill($pid, SIGKILL);
            }
        }
        if ($signal !== 0) {
            pcntl_sigprocmask(SIG_UNBLOCK, [$signal]);
            pcntl_signal($signal, SIG_DFL);
            posix_kill(getmypid(), $signal);
        }
        exit($status);
    }
}
