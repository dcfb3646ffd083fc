<?php
namespace Sandgate;

/** JSON of any value. Values that JSON lacks become text. */
final class Json
{
    private const FLAGS = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE | JSON_PRESERVE_ZERO_FRACTION;
    private const MAX_DEPTH = 64;

    /** Encodes the driver's own values: strings of any bytes, numbers, arrays. */
    public static function encode(mixed $value): string
    {
        $text = json_encode($value, self::FLAGS);
        return $text === false ? json_encode(self::plain($value), self::FLAGS | JSON_PARTIAL_OUTPUT_ON_ERROR) : $text;
    }

    /**
     * Converts any value to one that JSON can represent. Objects become their jsonSerialize()
     * result, or their public properties.
     */
    public static function plain(mixed $value, int $depth = 0, array $above = []): mixed
    {
        if (\is_float($value) && !is_finite($value)) {
            return is_nan($value) ? 'NAN' : ($value > 0 ? 'INF' : '-INF');
        }
        if (\is_array($value)) {
            if ($depth >= self::MAX_DEPTH) {
                return '…';
            }
            $plain = [];
            foreach ($value as $key => $item) {
                $plain[$key] = self::plain($item, $depth + 1, $above);
            }
            return $plain;
        }
        if (\is_object($value)) {
            $id = spl_object_id($value);
            if ($depth >= self::MAX_DEPTH || isset($above[$id])) {
                return '*recursion*';
            }
            $above[$id] = true;
            if ($value instanceof \JsonSerializable) {
                return self::plain($value->jsonSerialize(), $depth + 1, $above);
            }
            if ($value instanceof \UnitEnum) {
                return $value instanceof \BackedEnum ? $value->value : $value->name;
            }
            if ($value instanceof \DateTimeInterface) {
                return $value->format(\DATE_RFC3339_EXTENDED);
            }
            $public = get_object_vars(...)->bindTo(null, null)($value);
            return $public === [] ? new \stdClass() : (object) self::plain($public, $depth + 1, $above);
        }
        return \is_resource($value) || !\is_scalar($value) && $value !== null ? '<' . get_debug_type($value) . '>' : $value;
    }
}
