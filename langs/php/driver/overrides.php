<?php
/*
 * PHP functions that behave differently in a kernel. They are removed from PHP's table before this
 * file is loaded.
 */

function readline(?string $prompt = null): string|false
{
    return Sandgate\Kernel::get()->input->ask($prompt ?? '', false);
}

/** Calls the function at the end of the cell: the process does not end. */
function register_shutdown_function(callable $callback, mixed ...$args): void
{
    Sandgate\Kernel::get()->atEnd($callback, $args);
}

/** PHP's own function continues to sleep after a signal. */
function time_sleep_until(float $timestamp): bool
{
    if ($timestamp <= microtime(true)) {
        trigger_error('time_sleep_until(): Argument #1 ($timestamp) must be greater than or equal to the current time', E_USER_WARNING);
        return false;
    }
    while (($left = $timestamp - microtime(true)) > 0) {
        usleep((int) ceil(min($left, 1000) * 1e6));
    }
    return true;
}
