<?php
/* Starts the PHP kernel; see README.md. */
namespace Sandgate;

require __DIR__ . '/libc.php';
require __DIR__ . '/shared.php';
require __DIR__ . '/supervisor.php';

(static function (): void {
    $libc = new Libc();
    $shared = Shared::make($libc);
    Supervisor::start($shared);
    // From here on this process is the kernel.
    foreach (['parser', 'engine', 'wire', 'interrupts', 'exits', 'savegame', 'source', 'cells', 'json', 'signature', 'dump', 'errors',
        'output', 'bundle', 'display', 'values', 'input', 'composer', 'handlers', 'help', 'reseed', 'variables', 'kept', 'kernel'] as $name) {
        require __DIR__ . "/$name.php";
    }
    class_alias(Values::class, 'Sandgate');
    $engine = new Engine();
    $kernel = new Kernel($libc, $engine, $shared);
    require __DIR__ . '/overrides.php';
    Reseed::limitMemory();
    $engine->check();
    $kernel->start();
})();

$GLOBALS['argv'] = $_SERVER['argv'] = ['cell.php'];
$_SERVER['PHP_SELF'] = $_SERVER['SCRIPT_NAME'] = $_SERVER['SCRIPT_FILENAME'] = $_SERVER['PATH_TRANSLATED'] = 'cell.php';

require __DIR__ . '/loop.php';
