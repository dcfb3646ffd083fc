<?php
namespace Sandgate;

/** A cell has called exit. */
final class Ended extends \Error {}

/**
 * Stops exit() at the end of the cell. PHP unwinds the stack for exit with something that no catch sees, and runs no
 * finally. But it destroys what the frames hold, this object too; and what a destructor throws takes exit's place.
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

    /** Calls a function; true if it came to its end, and did not exit. */
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
