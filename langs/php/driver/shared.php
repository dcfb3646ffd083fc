<?php
namespace Sandgate;

/**
 * Memory that the supervisor, the kernel and its savegame share:
 *
 *   savegame     the process that waits to take over, 0 means none
 *   parted       1 when its descriptors are separate
 *   sequence     the number of requests so far
 *   busy         1 while a cell is running
 *   began        when that began, in ms of microtime
 *   handled      1 when the kernel has noticed the interrupt of this cell
 *   noticed      1 when the supervisor has noticed an interrupt, since the cell began
 *   meant        the sequence that the supervisor's own signals are for
 *   pressed      1 when the supervisor has killed the kernel because of it
 *   writing      1 while a frame is being written
 *   failed       1 when the kernel reported the cell's error before it died; reason is its value
 *   ending       1 when there are no more requests; status is the exit status of the driver
 *   signal       the signal that ended the kernel
 *   cell, id, count, saved, silent, program   of the running cell; saved is the count when the
 *                savegame was made
 */
final class Shared
{
    public static function make(Libc $libc): \FFI\CData
    {
        return $libc->shared('typedef struct { int32_t savegame; uint32_t parted, sequence, busy, handled, noticed, meant, pressed, writing, failed,
            ending, status, signal, silent, program, cell, count, saved; int64_t id, began;
            char reason[1024]; } Shared;', 'Shared');
    }
}
