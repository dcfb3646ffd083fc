<?php
namespace Sandgate;

/** The session: takes requests, runs cells, answers. */
final class Kernel
{
    /**
     * The state is saved after some milliseconds without a request. It is saved at once when cells
     * have worked for some seconds since it was saved, or when it is that old.
     */
    private const SAVE_IDLE = 10;
    private const SAVE_AFTER = 0.25;

    private const FATAL = E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_RECOVERABLE_ERROR | E_USER_ERROR;

    private const REHEARSAL = '[1 + 1, strlen("text")]';

    private static self $kernel;

    public readonly Output $output;
    public readonly Input $input;
    public readonly Source $source;
    private Wire $wire;
    private Interrupts $interrupts;
    private Savegame $savegame;
    private Reseed $reseed;
    private Kept $kept;

    private int $pid;
    private int $count = 0;
    private int $silentCount = 0;
    private bool $dirty = false;   // there is something to save
    private float $dirtySince = 0;
    private float $begun = 0;      // start time of the cell
    private float $work = 0;       // seconds of cells' work since the state was saved
    private bool $live = false;    // a snapshot is no longer made of this state
    private ?array $request = null; // the running cell
    private array $later = [];     // requests that arrived before their turn
    private string $file = '';
    /** @var list<array{callable, array}> */
    private array $atEnd = [];
    private bool $left = false;    // one of them has called exit
    /** PHP's own proc_open. */
    public readonly \Closure $openProcess;
    public readonly ErrorHandlers $errorHandlers;
    /** Executes the cell. */
    public readonly \FFI\CData $execute;

    public static function get(): self
    {
        return self::$kernel;
    }

    public function __construct(private Libc $libc, public readonly Engine $engine, private \FFI\CData $shared)
    {
        self::$kernel = $this;
        $this->pid = getmypid();
        $this->wire = new Wire($libc, $shared);
        $this->interrupts = new Interrupts($shared, $engine, $this->pid);
        $this->output = new Output($this->wire, $this->interrupts, $this);
        $this->input = new Input($this, $this->wire, $this->interrupts);
        $this->source = new Source($engine);
        $this->savegame = new Savegame($libc, $shared);
        $this->reseed = new Reseed();
        stream_wrapper_register('cell', Cells::class);
        stream_wrapper_register('sandgate', StandardStream::class);
        $this->standardStreams();
        register_shutdown_function($this->shutdown(...));
        $this->execute = $engine->execute;
        $this->openProcess = proc_open(...);
        $this->errorHandlers = new ErrorHandlers($this->output->diagnose(...));
        foreach (['readline', 'register_shutdown_function', 'time_sleep_until', 'proc_open',
            'set_error_handler', 'restore_error_handler'] as $name) {
            $engine->forgetFunction($name);
        }
    }

    /** Reports to the agent that there is a kernel. */
    public function start(): void
    {
        $this->interrupts->install();
        $this->kept = new Kept();
        $this->reply(['op' => 'ready', 'id' => 0, 'status' => 'ok', 'info' => [
            'language' => 'php', 'version' => PHP_VERSION, 'implementation' => 'Sandgate PHP ' . PHP_VERSION,
            'file_extension' => '.php', 'mimetype' => 'application/x-php', 'banner' => 'PHP ' . PHP_VERSION,
        ]]);
    }

    /** Returns whether this process is a fork that a cell has made. */
    public function isFork(): bool
    {
        return getmypid() !== $this->pid;
    }

    public function noInput(): bool
    {
        return $this->request === null || !empty($this->request['no_input']);
    }

    /** Returns the cell's file, as PHP names it. */
    public function file(): string
    {
        return $this->file;
    }

    public function atEnd(callable $callback, array $arguments): void
    {
        $this->atEnd[] = [$callback, $arguments];
    }

    /** STDIN and STDERR are the driver's streams; STDOUT is PHP's. */
    public function standardStreams(): void
    {
        foreach (['STDIN' => 'r', 'STDERR' => 'w'] as $name => $mode) {
            $this->engine->forgetConstant($name);
            \define($name, fopen('sandgate://' . strtolower($name), $mode));
        }
    }

    // --- Cells ---

    /**
     * Answers requests until there is a cell; returns the arguments for its execution.
     *
     * @return array{\FFI\CData, \FFI\CData}
     */
    public function next(): array
    {
        while (true) {
            $request = array_shift($this->later) ?? $this->receive();
            if (($request['op'] ?? '') === 'execute') {
                if ($this->isToBeSaved($request) && $this->savegame->make()) {
                    $this->takeOver(); // the request was the dead kernel's, and has been answered
                    continue;
                }
                return $this->begin($request);
            }
            $this->answer($request);
            $this->interrupts->end();
        }
    }

    /** Returns whether the state is saved before a cell although that takes time. */
    private function isToBeSaved(array $request): bool
    {
        return empty($request['silent'])
            && ($this->shared->savegame === 0 || $this->dirty && Source::isRisky((string) ($request['code'] ?? '')));
    }

    private function receive(): ?array
    {
        while ($this->dirty) {
            $wait = max($this->work, microtime(true) - $this->dirtySince) > self::SAVE_AFTER ? 0 : self::SAVE_IDLE;
            if ($wait > 0 && $this->wire->waits($wait)) {
                return $this->wire->receive();
            }
            if (!$this->live) {
                break;
            }
            $this->dirty = false;
            $this->work = 0;
            if ($this->savegame->make()) {
                $this->takeOver();
            } else {
                $this->rehearse();
            }
        }
        while (!$this->wire->waits(-1));
        return $this->wire->receive();
    }

    /**
     * Runs an invisible cell. After a fork the first write to each page copies it, which is slow in
     * gVisor. This copies the pages that every cell writes to, before a client waits for them.
     */
    private function rehearse(): void
    {
        $path = Cells::add('rehearsal', self::REHEARSAL, $this->source->prepare(self::REHEARSAL));
        $frame = $this->output->frame('execute_result', ['data' => Bundle::of((include $path)->value), 'metadata' => new \stdClass(), 'execution_count' => 0]);
        json_decode(substr($frame, 16), true, 64);
    }

    /** Compiles a cell. */
    private function begin(array $request): array
    {
        $silent = !empty($request['silent']);
        $code = (string) ($request['code'] ?? '');
        if (!$silent) {
            $this->count++;
            $this->live = true;
        }
        $this->interrupts->settle();
        $this->request = $request;
        $this->output->cell = (int) ($request['cell'] ?? 0);
        $this->file = Cells::SCHEME . ($silent ? 'silent ' . ++$this->silentCount : $this->count);
        $shared = $this->shared;
        $shared->id = (int) ($request['id'] ?? 0);
        $shared->cell = $this->output->cell;
        $shared->count = $this->count;
        $shared->silent = (int) $silent;
        $shared->program = (int) Source::isTagged($code);
        $shared->sequence++;
        $shared->failed = $shared->pressed = 0;
        $this->engine->clearExitStatus();
        $this->left = false;
        $this->engine->enableOutput();
        $this->engine->forgetHeaders();
        error_clear_last();
        $this->interrupts->begin();
        $this->awaitAnnouncement($shared->cell);
        $shared->began = (int) (microtime(true) * 1000);
        $shared->busy = 1;
        $this->begun = microtime(true);
        $this->input->begin();
        $this->savegame->await();
        if (is_file('vendor/autoload.php')) {
            Composer::load();
        }
        $name = substr($this->file, \strlen(Cells::SCHEME));
        $path = Cells::add($name, $code, $code); // for the error, if there is one
        $path = Cells::add($name, $code, $this->source->prepare($code));
        $this->interrupts->leave();
        return $this->engine->compile($path);
    }

    /**
     * Finds out whether a signal that came before the cell is for it. Other requests that have
     * arrived are handled after the cell.
     */
    private function awaitAnnouncement(int $cell): void
    {
        while (($wait = $this->interrupts->unannounced()) !== null) {
            if (!$this->wire->waits($wait)) {
                if ($wait === 0) {
                    $this->interrupts->forget();
                }
                continue; // a signal, or time has passed
            }
            $request = $this->wire->receive();
            if (($request['op'] ?? '') !== 'interrupt') {
                $this->later[] = $request ?? [];
            } elseif (($request['cell'] ?? 0) === $cell) {
                $this->interrupts->early();
            }
        }
    }

    /** Sets whether exit is stopped: in a cell, and in calls of ExitGuard. */
    public function exitable(bool $is): void
    {
        $this->interrupts->exitable = $is;
    }

    /** A cell has reached its end. */
    public function finish(ExitGuard $guard, mixed $executed): void
    {
        $this->interrupts->exitable = false;
        $guard->done = true;
        $value = $this->engine->release();
        if ($this->isFork()) {
            exit(0); // a fork that has reached the end of its cell
        }
        $frames = '';
        $whole = true;
        if ($value instanceof Value && $value->value !== null && !$this->shared->silent) {
            $value = $value->value;
            $whole = ExitGuard::call(function () use ($value, &$frames) {
                $frames = $this->output->frame('execute_result', ['data' => Bundle::of($value), 'metadata' => new \stdClass(), 'execution_count' => $this->count]);
            });
        }
        unset($value);
        if (!$this->endOutput()) {
            return;
        }
        if (!$whole || $this->left) { // a form of the value, or a function at the end, has called exit
            $this->exited($this->engine->exitStatus() & 0xFF);
        } else {
            $this->done($frames, ['status' => 'ok'] + ($this->shared->program ? ['exit_code' => 0] : []));
        }
    }

    /** A cell was ended by an exception, or by exit. The caller's variable is set to null. */
    public function fail(?\Throwable &$error): void
    {
        $this->interrupts->exitable = false;
        $e = $error;
        if ($e instanceof Ended) {
            $e = $e->getPrevious(); // the exception that the guard's replaced; null after exit
        }
        if ($this->isFork()) {
            if ($e !== null) {
                file_put_contents('php://stderr', 'PHP Fatal error:  Uncaught ' . $e . "\n");
            }
            exit($e === null ? $this->engine->exitStatus() : 255);
        }
        if ($this->request === null) { // between cells: a handler of signals
            if ($e !== null && !$e instanceof Interrupted) {
                $this->output->stderr('Uncaught ' . $e . "\n");
            }
            $error = null;
            return;
        }
        $handled = false;
        if ($e !== null && !$e instanceof Interrupted && !$e instanceof CompileError) {
            $handler = set_exception_handler(null);
            if ($handler !== null) {
                set_exception_handler($handler);
                $handled = true;
                ExitGuard::call(fn () => $handler($e));
            }
        }
        if ($this->interrupts->thrown && $e === null) {
            $e = new Interrupted('the cell was interrupted, and cut off as it went on');
        }
        if (!$this->endOutput()) {
            $error = $e = null;
            return;
        }
        if ($e === null || $handled) {
            $error = null;
            $code = $handled ? 255 : $this->engine->exitStatus();
            $this->exited($code & 0xFF);
            return;
        }
        $content = Errors::of($e);
        $program = !$e instanceof Interrupted && $this->shared->program ? ['exit_code' => 255] : [];
        $error = $e = null; // releases objects in its arguments before the reply
        $this->failed($content, $program);
    }

    private function exited(int $code): void
    {
        if ($code === 0) {
            $this->done('', ['status' => 'ok', 'exit_code' => 0]);
        } else {
            $this->failed(['ename' => 'Exit', 'evalue' => (string) $code, 'traceback' => ["Exit: $code"]], ['exit_code' => $code]);
        }
    }

    private function failed(array $content, array $more = []): void
    {
        $this->done($this->output->frame('error', $content), ['status' => 'error', 'ename' => $content['ename'], 'evalue' => $content['evalue']] + $more);
    }

    /**
     * Runs the functions that the cell has registered for its end, and prints the content of its
     * buffers. Returns false if that failed and was reported.
     */
    private function endOutput(): bool
    {
        $this->libc->flush();
        if ($this->atEnd === [] && ob_get_level() === 0) {
            return true;
        }
        try {
            while ($this->atEnd !== []) {
                [$callback, $arguments] = array_shift($this->atEnd);
                if (!ExitGuard::call(fn () => $this->engine->callFirst($callback, $arguments))) {
                    $this->atEnd = [];
                    $this->left = true;
                }
            }
            if (!ExitGuard::call(fn () => $this->engine->endBuffers(true))) {
                $this->left = true;
            }
            return true;
        } catch (\Throwable $e) {
            $this->atEnd = [];
            $this->engine->endBuffers(false);
            $this->failed(Errors::of($e));
            return false;
        }
    }

    private function done(string $frames, array $reply): void
    {
        $this->interrupts->end();
        if (\ini_get('max_execution_time') !== '0') {
            set_time_limit(0); // set_time_limit() applies only to its cell
        }
        $reply = ['op' => 'reply', 'id' => $this->request['id'] ?? 0, 'execution_count' => $this->count] + $reply;
        $this->request = null;
        $this->changed();
        $this->wire->last($frames . Wire::frame(Wire::CONTROL, 0, Json::encode($reply)));
        $this->shared->busy = 0;
    }

    private static function signalName(int $signal): string
    {
        return array_search($signal, ['SIGSEGV' => SIGSEGV, 'SIGBUS' => SIGBUS, 'SIGABRT' => SIGABRT, 'SIGFPE' => SIGFPE, 'SIGILL' => SIGILL, 'SIGKILL' => SIGKILL, 'SIGTERM' => SIGTERM], true) ?: "signal $signal";
    }

    private function changed(): void
    {
        $this->work += microtime(true) - $this->begun;
        if (!$this->dirty) {
            $this->dirty = true;
            $this->dirtySince = microtime(true);
        }
    }

    private function reply(array $reply): void
    {
        $this->wire->last(Wire::frame(Wire::CONTROL, 0, Json::encode($reply)));
    }

    // --- Other requests ---

    /** Handles a request that arrives while a cell waits for input. */
    public function meanwhile(?array $request): void
    {
        if (\in_array($request['op'] ?? '', ['execute', 'reseed'], true)) {
            $this->later[] = $request;
        } else {
            $this->answer($request);
        }
    }

    private function answer(?array $request): void
    {
        $op = $request['op'] ?? null;
        $id = $request['id'] ?? 0;
        if ($request === null || !\is_string($op) || !\is_int($id)) {
            $this->output->stderr("the kernel received an invalid request\n");
            return;
        }
        if ($op === 'interrupt') {
            $this->interrupts->announced((int) ($request['cell'] ?? 0));
        }
        if (\in_array($op, ['input', 'interrupt', 'comm'], true)) {
            return; // no cell is running that they could be for
        }
        try {
            $code = (string) ($request['code'] ?? '');
            $cursor = (int) ($request['cursor'] ?? mb_strlen($code));
            $reply = match ($op) {
                'complete' => (new Help($this->source))->complete($code, $cursor),
                'inspect' => (new Help($this->source))->inspect($code, $cursor, (int) ($request['detail'] ?? 0)),
                'is_complete' => $this->isComplete($code),
                'variables' => ['variables' => Variables::all()],
                'reseed' => $this->reseeded($request),
                'keep' => $this->kept->keep($request),
                'restore' => $this->restored($request),
                default => throw new \ValueError("the kernel has no operation \"$op\""),
            };
            $reply += ['status' => 'ok'];
        } catch (\Throwable $e) {
            $reply = ['status' => 'error', 'ename' => $e::class, 'evalue' => $e->getMessage()];
        }
        $this->reply(['op' => 'reply', 'id' => $id] + $reply);
    }

    private function isComplete(string $code): array
    {
        $state = $this->source->isComplete($code);
        $depth = 0;
        foreach ($state === 'incomplete' ? \PhpToken::tokenize(Source::isTagged($code) ? $code : "<?php $code") : [] as $token) {
            $depth += match ($token->text) { '{', '(', '[', '${', '{$', '#[' => 1, '}', ')', ']' => -1, default => 0 };
        }
        return ['is_complete' => $state, 'indent' => str_repeat('    ', max(0, min($depth, 20)))];
    }

    private function reseeded(array $request): array
    {
        $this->live = true;
        $this->savegame->drop();
        $this->begun = microtime(true);
        $this->changed();
        $this->reseed->apply((string) ($request['seed'] ?? ''), (array) ($request['env'] ?? []));
        return [];
    }

    private function restored(array $request): array
    {
        $said = $this->kept->restore($request);
        $this->changed();
        return $said;
    }

    // --- The end of a process ---

    /**
     * PHP ends this process. Only errors that nothing can catch get here, and forks by user code.
     */
    private function shutdown(): void
    {
        if ($this->isFork()) {
            foreach ($this->atEnd as [$callback, $arguments]) {
                $callback(...$arguments);
            }
            return;
        }
        ini_set('memory_limit', '-1');
        $this->interrupts->end();
        $error = error_get_last();
        if ($this->request !== null && $error !== null && $error['type'] & self::FATAL) {
            while (ob_get_level() > 0 && @ob_end_flush());
            $content = Errors::fatal($error['message'], $error['file'], $error['line']);
            $this->wire->last($this->output->frame('error', $content));
            $reason = mb_strcut($content['evalue'], 0, 1023, 'UTF-8') . "\0";
            \FFI::memcpy($this->shared->reason, $reason, \strlen($reason));
            $this->shared->failed = 1;
        }
        posix_kill($this->pid, SIGKILL); // without destructors: the savegame has the objects and continues
    }

    /** The kernel has died, and this is its savegame. */
    private function takeOver(): void
    {
        $shared = $this->shared;
        $this->pid = getmypid();
        $this->interrupts->movedTo($this->pid);
        if ($shared->writing) {
            // The end of a frame is missing, and its length is unknown.
            fwrite(fopen('php://stderr', 'w'), "the kernel died while it wrote\n");
            posix_kill($this->pid, SIGKILL);
        }
        [$busy, $failed, $lost] = [$shared->busy, $shared->failed, $shared->count - $shared->saved - ($shared->busy && !$shared->silent ? 1 : 0)];
        $this->count = $shared->count;
        $this->output->cell = $shared->cell;
        $name = $failed ? 'FatalError' : ($shared->signal === SIGKILL && $shared->pressed ? 'Interrupted' : 'KernelDied');
        $why = match (true) {
            (bool) $failed => 'the error ended the PHP process',
            $shared->signal === SIGKILL && $shared->pressed => 'the cell could not be interrupted',
            default => 'the PHP process ' . ($shared->signal ? 'was ended by ' . self::signalName($shared->signal) : 'ended'),
        };
        $frames = '';
        if ($busy && !$failed) {
            $frames .= $this->output->frame('error', ['ename' => $name, 'evalue' => $why, 'traceback' => ["$name: $why"]]);
        }
        $first = $shared->saved + 1;
        $state = match (true) {
            $lost === 1 => "as they were before cell $first, the last one",
            $lost > 1 => "as they were before cell $first: the last $lost cells came too fast to be saved",
            (bool) $busy => 'as they were before this cell',
            default => 'as they were after the last cell',
        };
        $frames .= $this->output->frame('kernel_event', ['event' => 'restored',
            'message' => ucfirst($why) . ". Variables, functions and classes are $state. Child processes, pipes and connections were not kept."]);
        if ($busy) {
            $frames .= Wire::frame(Wire::CONTROL, 0, Json::encode(['op' => 'reply', 'id' => $shared->id, 'status' => 'error',
                'execution_count' => $this->count, 'ename' => $name, 'evalue' => $failed ? \FFI::string($shared->reason) : $why] + ($shared->program ? ['exit_code' => 255] : [])));
        }
        $shared->busy = 0;
        $this->wire->last($frames);
        $this->changed();
        $this->work = INF; // save before anything else
    }
}
