package sandgate;

import java.util.Map;

/**
 * A value in several MIME types. As the last expression of a cell, or passed to display, it is
 * shown in the best one. The functions of Display show the values that they return at once.
 */
public record Rich(Map<String, ?> data) {
    public Rich {
        data = Map.copyOf(data);
    }

    @Override public String toString() {
        return data.containsKey("text/plain") ? String.valueOf(data.get("text/plain")) : "Rich" + data.keySet();
    }
}
