<?php
/*
 * Functions of PHP's own that mean something else in a kernel. They are taken out of PHP's table before this file is
 * loaded.
 */

function readline(?string $prompt = null): string|false
{
    return Sandgate\Kernel::get()->input->ask($prompt ?? '', false);
}

/** Calls the function at the end of the cell: the process has none. */
function register_shutdown_function(callable $callback, mixed ...$args): void
{
    Sandgate\Kernel::get()->atEnd($callback, $args);
}
