<?php
namespace Sandgate;

/** A cell has called exit. */
final class Ended extends \Error {}

/**
 * Stops exit() at the end of the cell. PHP unwinds the stack for exit with an exception that no
 * catch sees, and runs no finally. But it destroys the objects in the frames, including this
 * object, and an exception from a destructor replaces exit's.
 */
final class ExitGuard
{
    public bool $done = false;

    public function __destruct()
    {
        if (!$this->done && !Kernel::get()->isFork()) {
            throw new Ended();
        }
    }

    /** Calls a function; returns true if it returned, and false if it called exit. */
    public static function call(\Closure $function): bool
    {
        try {
            self::run($function);
            return true;
        } catch (Ended $e) {
            Kernel::get()->exitable(false);
            if ($e->getPrevious() !== null) {
                throw $e->getPrevious();
            }
            return false;
        }
    }

    private static function run(\Closure $function): void
    {
        $guard = new self();
        Kernel::get()->exitable(true);
        $function();
        Kernel::get()->exitable(false);
        $guard->done = true;
    }
}
