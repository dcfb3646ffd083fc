<?php
namespace Sandgate;

/** The value that the file of a cell returns. */
final class Result
{
    public mixed $value = null;
}

/**
 * PHP's own tables, accessed through FFI: names are removed from them so that a later cell can
 * declare them again. Removed entries are never destroyed, so old values and frames stay valid.
 *
 * The layouts are those of PHP 8.4, 64 bits, without threads. check() verifies them before any code
 * relies on them.
 */
final class Engine
{
    /**
     * The number of live objects that are searched for closures. If there are more, a closure may
     * still call the old function.
     */
    private const MAX_OBJECTS = 200_000;

    /** The flag of a string whose reference count is used for a class. */
    private const REMEMBERS_CLASS = 1 << 5;

    private const INCLUDE = 1 << 1;

    private const CALL = '<?php \Sandgate\begin(); (\Sandgate\Kernel::get()->engine->call[0])(...\Sandgate\Kernel::get()->engine->call[1]);';

    /** The flags of the frame of a file that C code executes. */
    private const FIRST = 3 << 16;

    private \FFI $c;
    private \FFI\CData $executor;
    private \FFI\CData $functions;
    private \FFI\CData $classes;
    private \FFI\CData $constants;
    private \FFI\CData $server;
    private int $ownClasses = 0;
    /** The compiled file of the cell. */
    private ?\FFI\CData $code = null;
    private ?Result $result = null;
    /** A function for callFirst, and its arguments. */
    public ?array $call = null;
    /** PHP's function that executes a compiled file and stores the value that the file returns. */
    public readonly \FFI\CData $execute;
    /** @var \FFI\CData[] functions and classes that were removed */
    private array $oldFunctions = [];
    private array $oldClasses = [];

    public function __construct()
    {
        $this->c = \FFI::cdef('
            typedef struct { uint32_t refcount, type; uint32_t flags, mask; void *data; uint32_t used, num, size, pos;
                             int64_t next; void *destructor; } Table;
            typedef struct { uintptr_t value; uint32_t type, extra; } Value;
            typedef struct { Value value; uint64_t hash; void *key; } Bucket;
            typedef struct { int size, top, max; void *elements; } Stack;
            typedef struct Function {
                uint8_t type, arg_flags[3]; uint32_t flags; void *name, *scope, *prototype; uint32_t args, required;
                void *arg_info, *attributes; uintptr_t cache; void *doc; uint32_t temporaries; void *property;
                int cache_size, variables; uint32_t last; void *opcodes, *static_pointer, *statics; void **names;
                uint32_t *references; int live, tries; void *live_ranges, *try_catch, *file;
                uint32_t line_start, line_end; int literals; uint32_t inner_count; void *literal;
                struct Function **inner;
            } Function;
            typedef struct { uint32_t refcount, type; } String;
            typedef struct { char type; String *name; void *parent; int references; uint32_t flags; int properties, statics;
                             Value *defaults, *static_defaults; void *static_members; Table methods; } Class;
            typedef struct { uint32_t refcount, type, handle, flags; uintptr_t class; void *handlers, *table;
                             Value properties[1]; } Object;
            typedef struct { Object object; Function function; } Closure;
            typedef struct Frame { void *opcode, *call, *result; Function *function; Value object; struct Frame *previous; } Frame;
            typedef struct {
                Value uninitialized, error; void *cache[34]; Table symbols, included; void *bailout;
                int error_reporting, exit_status; Table *functions, *classes, *constants;
                void *stack_top, *stack_end, *stack; size_t stack_page; void *current, *scope; uint32_t jit;
                void *observed; int ticks; int64_t precision; uint32_t persistent[3];
                bool no_extensions, full_cleanup, interrupt, timed_out; Table *autoload; int64_t timeout;
                void *stack_base, *stack_limit; Table regular, persistent_list; int handler_reporting;
                bool ignore_args; Value error_handler, exception_handler; Stack handlers[3]; void *exception_class;
                int handling, capture; int64_t seconds; void *ini, *modified, *reporting;
                uintptr_t *objects; uint32_t objects_top, objects_size;
            } Executor;
            extern Executor executor_globals;
            typedef struct {
                void *context, *method, *query, *cookies; int64_t length; void *translated, *uri, *body, *type;
                bool headers_only, no_headers, headers_read; void *post, *type_copy, *login[3], *zero, *user;
                int user_length, arguments; void *argument; int protocol; void *first, *last; size_t count, size;
                void *destructor; uint8_t persistent; void *at; int response; uint8_t send_type; void *mimetype, *status;
                int64_t read; uint8_t post_read, headers_sent;
            } Server;
            extern Server sapi_globals;
            Value *zend_hash_str_find(Table *table, const char *key, size_t length);
            int zend_hash_str_del(Table *table, const char *key, size_t length);
            void *memset(void *at, int byte, size_t length);
            void php_output_set_status(int status);
            void php_output_end_all(void);
            void php_output_discard_all(void);
            Function *compile_filename(int type, void *name);
            void zend_execute(Function *code, Value *result);
            void zend_destroy_static_vars(Function *code);
            void destroy_op_array(Function *code);
            void _efree(void *at);
        ');
        $this->executor = $this->c->executor_globals;
        $this->functions = $this->executor->functions;
        $this->classes = $this->executor->classes;
        $this->constants = $this->executor->constants;
        $this->execute = $this->c->zend_execute;
        $this->server = $this->c->sapi_globals;
    }

    /**
     * Compiles a file, as include does. Returns the arguments for the property execute, which must be
     * called in the global scope.
     *
     * @return array{\FFI\CData, \FFI\CData}
     */
    public function compile(string $path): array
    {
        $this->release();
        $this->result = new Result();
        $this->result->value = $path;
        $place = $this->c->cast('Object *', $this->executor->objects[spl_object_id($this->result)])->properties;
        $this->code = $this->c->compile_filename(self::INCLUDE, $this->c->cast('void *', $place[0]->value));
        $this->result->value = null;
        return [$this->code, \FFI::addr($place[0])];
    }

    /** Frees the compiled file, and returns the value that it returned. */
    public function release(): mixed
    {
        if ($this->code !== null) {
            $this->c->zend_destroy_static_vars($this->code);
            $this->c->destroy_op_array($this->code);
            $this->c->_efree($this->code);
            $this->code = null;
        }
        $value = $this->result->value ?? null;
        $this->result = null;
        return $value;
    }

    /**
     * Makes the file that is being executed the first frame of the stack, so that no trace shows the
     * driver. PHP returns from such a file to the C function that executes it, and from there to the
     * frame that called this function, which it has kept elsewhere.
     */
    public function begin(): void
    {
        $frame = $this->c->cast('Frame *', $this->executor->current);
        while (($frame->object->type & self::FIRST) !== self::FIRST) {
            $frame = $frame->previous;
        }
        $frame->previous = null;
    }

    /** Calls a function as PHP does at the end of a script: no trace shows the driver. */
    public function callFirst(callable $callback, array $arguments): void
    {
        $this->call = [$callback, $arguments];
        ($this->execute)(...$this->compile(Cells::add('end', '', self::CALL)));
        $this->release();
    }

    /**
     * Throws unless the layouts are those of this PHP. It must be called after all of the driver's
     * classes are loaded.
     */
    public function check(): void
    {
        $reporting = error_reporting(E_ALL & ~E_DEPRECATED);
        $ok = $this->executor->error_reporting === (E_ALL & ~E_DEPRECATED);
        error_reporting($reporting);
        http_response_code(299);
        $ok = $ok && $this->server->response === 299 && $this->server->headers_sent === (int) headers_sent();
        $this->server->response = 0;
        eval('namespace Sandgate\Check; function a() { return 1; } function b() { return a(); } class C {}
            const D = 1; function f() { static $f; return $f ??= fn () => a(); } function g(C $c) { return new C; } g(new C);');
        $closure = Check\f();
        $ok = $ok && Check\b() === 1 && $closure() === 1 && $this->function('sandgate\check\b')->cache_size === 8;
        $object = $this->c->cast('Object *', $this->executor->objects[spl_object_id($closure)]);
        $ok = $ok && $this->executor->objects_top > spl_object_id($closure)
            && $object->handle === spl_object_id($closure);
        if ($ok) {
            $this->forgetFunction('sandgate\check\a');
            $this->forgetClass('Sandgate\Check\C');
            $this->forgetConstant('Sandgate\Check\D');
            eval('namespace Sandgate\Check; function a() { return 2; } class C { const X = 2; } const D = 2;');
            $ok = Check\b() === 1 && $closure() === 1;
            $this->refresh(['sandgate\check\b', 'sandgate\check\f', 'sandgate\check\g']);
            $ok = $ok && Check\b() === 2 && $closure() === 2 && (Check\g(new Check\C()))::X === 2 && \constant('Sandgate\Check\D') === 2;
        }
        if (!$ok) {
            throw new \RuntimeException('this PHP (' . PHP_VERSION . ') has tables of another layout than 8.4 without threads');
        }
        $this->oldFunctions = $this->oldClasses = [];
        $this->ownClasses = \count(get_declared_classes());
    }

    public function exitStatus(): int
    {
        return $this->executor->exit_status;
    }

    public function clearExitStatus(): void
    {
        $this->executor->exit_status = 0;
    }

    /** Lets a cell set headers and start a session after an earlier cell has printed something. */
    public function forgetHeaders(): void
    {
        $this->server->headers_sent = 0;
    }

    /** Makes echo work again after a write to descriptor 1 was interrupted. */
    public function enableOutput(): void
    {
        $this->c->php_output_set_status(0);
    }

    /** Ends all output buffers, also those that PHP code cannot remove. */
    public function endBuffers(bool $print): void
    {
        $print ? $this->c->php_output_end_all() : $this->c->php_output_discard_all();
    }

    public function forgetFunction(string $name): void
    {
        $this->oldFunctions[] = $this->function($name);
        $this->delete($this->functions, strtolower($name));
    }

    public function forgetClass(string $name): void
    {
        $name = strtolower($name);
        $class = $this->pointer('Class *', $this->c->zend_hash_str_find($this->classes, $name, \strlen($name)));
        $this->oldClasses[] = $class;
        // The string of its name may refer to the class.
        $class->name->type &= ~self::REMEMBERS_CLASS;
        $this->delete($this->classes, $name);
    }

    public function forgetConstant(string $name): void
    {
        if (($slash = strrpos($name, '\\')) !== false) { // a constant's namespace is case-insensitive, its name is not
            $name = strtolower(substr($name, 0, $slash)) . substr($name, $slash);
        }
        $this->delete($this->constants, $name);
    }

    /**
     * Empties the caches in which compiled code stores the functions, classes and constants that it
     * has found, so that it finds the new ones.
     *
     * @param string[]|null $names the functions; null for all of the user's
     */
    public function refresh(?array $names = null): void
    {
        foreach ($names ?? get_defined_functions()['user'] as $name) {
            if ($names !== null || !str_starts_with($name, 'sandgate\\')) {
                $this->clear($this->function($name));
            }
        }
        foreach ($this->oldFunctions as $function) {
            $this->clear($function);
        }
        foreach (\array_slice(get_declared_classes(), $this->ownClasses) as $name) {
            $lower = strtolower($name);
            $found = str_starts_with($lower, 'sandgate\\') ? null : $this->c->zend_hash_str_find($this->classes, $lower, \strlen($lower));
            if ($found !== null) { // neither an alias in another case nor an anonymous class
                $this->clearMethods($this->pointer('Class *', $found));
            }
        }
        foreach ($this->oldClasses as $class) {
            $this->clearMethods($class);
        }
        $objects = $this->executor->objects;
        $closure = $this->c->zend_hash_str_find($this->classes, 'closure', 7)->value;
        for ($i = 1, $top = min($this->executor->objects_top, self::MAX_OBJECTS); $i < $top; $i++) {
            $address = $objects[$i];
            if ($address !== 0 && !($address & 1)) { // in use
                $object = $this->c->cast('Closure *', $address);
                if ($object->object->class === $closure) {
                    $this->clear(\FFI::addr($object->function));
                }
            }
        }
    }

    private function function(string $name): \FFI\CData
    {
        $name = strtolower($name);
        return $this->pointer('Function *', $this->c->zend_hash_str_find($this->functions, $name, \strlen($name)));
    }

    /**
     * Returns the pointer in an entry of a table. It is copied: cast takes a field by reference, and
     * its result would be a view of the entry, which moves when the table grows.
     */
    private function pointer(string $type, \FFI\CData $entry): \FFI\CData
    {
        $address = $entry->value;
        return $this->c->cast($type, $address);
    }

    private function clearMethods(\FFI\CData $class): void
    {
        if ($class->type !== "\2") {
            return; // belongs to an extension
        }
        $methods = $class->methods;
        $bucket = $this->c->cast('Bucket *', $methods->data);
        for ($i = 0; $i < $methods->used; $i++) {
            if ($bucket[$i]->value->type !== 0) {
                $this->clear($this->pointer('Function *', $bucket[$i]->value));
            }
        }
    }

    private function clear(\FFI\CData $function): void
    {
        if ($function->type !== 2) {
            return; // belongs to an extension
        }
        if ($function->cache !== 0 && !($function->cache & 1)) {
            $this->c->memset($this->c->cast('void *', $function->cache), 0, $function->cache_size);
        }
        for ($i = 0; $i < $function->inner_count; $i++) {
            $this->clear($function->inner[$i]);
        }
    }

    private function delete(\FFI\CData $table, string $key): void
    {
        $destructor = $table->destructor;
        $table->destructor = null;
        $this->c->zend_hash_str_del($table, $key, \strlen($key));
        $table->destructor = $destructor;
    }
}
