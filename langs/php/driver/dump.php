<?php
namespace Sandgate;

/**
 * Values as text, in PHP's notation where it has one. This runs none of the user's code: no
 * __toString, no __get, no property hooks, no Countable.
 */
final class Dump
{
    private const MAX_DEPTH = 12;
    private const MAX_ITEMS = 1000;  // items of one array or object
    private const MAX_STRING = 100_000;
    private const WIDTH = 100;       // columns of a value on one line

    private int $room;

    private function __construct(int $room, private bool $line)
    {
        $this->room = $room;
    }

    /** Returns the text of a cell's result: at most 1 Mi characters. */
    public static function text(mixed $value, int $limit = 1 << 20): string
    {
        return self::cut((new self($limit, false))->any($value, 0, []), $limit);
    }

    /** Returns a value on one line. */
    public static function line(mixed $value, int $limit = 200): string
    {
        $text = (new self(4 * $limit, true))->any($value, 0, []);
        return self::cut(preg_replace('/\s*\n\s*/', ' ', $text), $limit);
    }

    /** Returns at most $limit characters, in any encoding. */
    public static function cut(string $text, int $limit): string
    {
        $text = mb_scrub($text, 'UTF-8');
        if (\strlen($text) <= $limit || mb_strlen($text, 'UTF-8') <= $limit) {
            return $text;
        }
        return $limit <= 200 ? mb_substr($text, 0, $limit - 1, 'UTF-8') . '…'
            : mb_substr($text, 0, $limit, 'UTF-8') . '… (' . mb_strlen($text, 'UTF-8') . ' characters in all)';
    }

    private function any(mixed $value, int $depth, array $above): string
    {
        return match (true) {
            $value === null => 'null',
            \is_bool($value) => $value ? 'true' : 'false',
            \is_float($value) => var_export($value, true),
            \is_string($value) => $this->string($value),
            \is_array($value) => $this->array($value, $depth, $above),
            \is_object($value) => $this->object($value, $depth, $above),
            \is_int($value) => (string) $value,
            default => $this->resource($value),
        };
    }

    private function string(string $value): string
    {
        $length = \strlen($value);
        $limit = min(self::MAX_STRING, max(20, $this->room));
        $shown = $length > $limit ? substr($value, 0, $limit) : $value;
        $this->room -= \strlen($shown);
        $utf8 = preg_match('//u', $shown) || $length > $limit;
        $shown = preg_replace_callback($utf8 ? '/[\x00-\x1f\x7f"\\\\$]/' : '/[\x00-\x1f\x7f-\xff"\\\\$]/', static fn ($m) => match ($m[0]) {
            "\n" => '\n', "\t" => '\t', "\r" => '\r', "\e" => '\e', '"' => '\"', '\\' => '\\\\', '$' => '\$',
            default => sprintf('\x%02X', \ord($m[0])),
        }, $shown);
        return '"' . $shown . '"' . ($length > $limit ? "… ($length bytes in all)" : '');
    }

    private function array(array $value, int $depth, array $above): string
    {
        if ($value === []) {
            return '[]';
        }
        if ($depth >= self::MAX_DEPTH || $this->room <= 0) {
            return '[…]';
        }
        $list = array_is_list($value);
        $items = [];
        foreach ($value as $key => $item) {
            if (\count($items) >= self::MAX_ITEMS || $this->room <= 0) {
                $items[] = '… (' . \count($value) . ' in all)';
                break;
            }
            $this->room -= 2;
            $items[] = ($list ? '' : (\is_int($key) ? $key : $this->string($key)) . ' => ') . $this->any($item, $depth + 1, $above);
        }
        return $this->join('[', $items, ']');
    }

    private function object(object $value, int $depth, array $above): string
    {
        if ($value instanceof \UnitEnum) {
            return $value::class . '::' . $value->name;
        }
        if ($value instanceof \Closure) {
            return Signature::ofClosure($value);
        }
        $name = self::className($value);
        $id = spl_object_id($value);
        if (isset($above[$id])) {
            return "$name {*recursion*}";
        }
        if ($depth >= self::MAX_DEPTH || $this->room <= 0) {
            return "$name {…}";
        }
        if (($special = $this->special($value)) !== null) {
            return $special === '' ? $name : "$name($special)";
        }
        $above[$id] = true;
        $items = [];
        if ((new \ReflectionClass($value))->isUninitializedLazyObject($value)) {
            return "$name {not initialized}";
        }
        $properties = self::contents($value) ?? get_mangled_object_vars($value);
        foreach ($properties as $key => $item) {
            if (\count($items) >= self::MAX_ITEMS || $this->room <= 0) {
                $items[] = '… (' . \count($properties) . ' in all)';
                break;
            }
            $key = (string) $key;
            $mark = '';
            if (($key[0] ?? '') === "\0") { // "\0*\0name" is protected, "\0Class\0name" private
                $mark = $key[1] === '*' ? '#' : '-';
                $key = substr($key, strrpos($key, "\0") + 1);
            }
            $this->room -= \strlen($key) + 2;
            $items[] = "$mark$key: " . $this->any($item, $depth + 1, $above);
        }
        return $items === [] ? "$name {}" : $this->join("$name {", $items, '}');
    }

    /**
     * Returns the content of one of PHP's own containers, whose properties do not show it. Null for
     * all other objects, and for subclasses.
     */
    private static function contents(object $value): ?array
    {
        return match ($value::class) {
            \ArrayObject::class, \ArrayIterator::class, \SplFixedArray::class => (array) $value,
            \SplObjectStorage::class, \SplDoublyLinkedList::class, \SplQueue::class, \SplStack::class, \SplMinHeap::class,
            \SplMaxHeap::class, \SplPriorityQueue::class => iterator_to_array(clone $value, false),
            default => null,
        };
    }

    /** Returns the text for an object of PHP's own, or null. */
    private function special(object $value): ?string
    {
        if ($value instanceof \GMP) {
            return gmp_strval($value);
        }
        if ($value instanceof \BcMath\Number) {
            return (string) $value;
        }
        if ($value instanceof \DateTimeInterface) {
            return \DateTime::createFromInterface($value)->format('Y-m-d H:i:s' . ((int) $value->format('u') ? '.u' : '') . ' e');
        }
        if ($value instanceof \DateTimeZone) {
            return (string) ($value->getName());
        }
        if ($value instanceof \Throwable) {
            return $this->string($value->getMessage()) . ' at ' . Errors::place($value->getFile(), $value->getLine());
        }
        if ($value instanceof \GdImage) {
            return imagesx($value) . ' × ' . imagesy($value);
        }
        if ($value instanceof \SplFileInfo) {
            return $this->string($value->getPathname());
        }
        if ($value instanceof \Generator || $value instanceof \Fiber || $value instanceof \WeakReference) {
            return '';
        }
        if ($value instanceof \SimpleXMLElement) {
            return $this->string((string) $value->asXML());
        }
        if ($value instanceof \DOMDocument) {
            return $this->string((string) $value->saveXML());
        }
        return null;
    }

    private function resource(mixed $value): string
    {
        return 'resource(' . get_resource_id($value) . ', ' . get_resource_type($value) . ')';
    }

    private function join(string $open, array $items, string $close): string
    {
        $inner = implode(', ', $items);
        if ($this->line || \strlen($inner) <= self::WIDTH && !str_contains($inner, "\n")) {
            return $open . $inner . $close;
        }
        $lines = implode(",\n", $items);
        return $open . "\n  " . str_replace("\n", "\n  ", $lines) . ",\n" . $close;
    }

    public static function className(object $value): string
    {
        return str_contains($value::class, '@anonymous') ? strstr($value::class, '@anonymous', true) . '@anonymous' : $value::class;
    }
}
