<?php
// Executes cells in the global scope and outside of any namespace, so that the variables of cells
// are real globals. The only variable here exists only while an error is reported.
while (true) {
    try {
        try {
            \Sandgate\Kernel::get()->finish(new \Sandgate\ExitGuard(), (\Sandgate\Kernel::get()->execute)(...\Sandgate\Kernel::get()->next()));
        } catch (\Throwable $__error) {
            \Sandgate\Kernel::get()->fail($__error);
        }
    } catch (\Throwable $__error) { // an interrupt between two cells
        \Sandgate\Kernel::get()->fail($__error);
    }
    unset($__error);
}
