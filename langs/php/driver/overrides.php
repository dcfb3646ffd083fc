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

/**
 * STDIN and STDERR are streams of the driver, which no process can use. A process gets the
 * descriptors of that number.
 *
 * @param array<int, mixed> $descriptor_spec
 * @param array<int, resource> $pipes
 */
function proc_open(array|string $command, array $descriptor_spec, &$pipes, ?string $cwd = null, ?array $env_vars = null, ?array $options = null)
{
    foreach ($descriptor_spec as &$entry) {
        $entry = match (true) {
            $entry === STDIN => ['file', '/dev/null', 'r'],
            $entry === STDERR => fopen('php://stderr', 'w'),
            default => $entry,
        };
    }
    unset($entry);
    return (Sandgate\Kernel::get()->openProcess)($command, $descriptor_spec, $pipes, $cwd, $env_vars, $options);
}

/**
 * Errors have a handler of the driver, which users do not see.
 *
 * @param callable|null $callback
 */
function set_error_handler(mixed $callback, int $error_levels = E_ALL): mixed
{
    $class = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 2)[1]['class'] ?? null;
    return Sandgate\Kernel::get()->errorHandlers->set($callback, $error_levels, $class);
}

function restore_error_handler(): true
{
    Sandgate\Kernel::get()->errorHandlers->restore();
    return true;
}
