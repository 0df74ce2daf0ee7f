//! Terms with their meanings.

use crate::escape::escape;

/// Adds a list of terms and meanings.
pub(super) fn pairs(out: &mut String, class: &str, pairs: &[(String, String)]) {
    out.push_str(&format!("<dl class=\"{class}\">\n"));
    for (term, meaning) in pairs {
        let (term, meaning) = (escape(term), escape(meaning));
        out.push_str(&format!("<div><dt>{term}</dt><dd>{meaning}</dd></div>\n"));
    }
    out.push_str("</dl>\n");
}
