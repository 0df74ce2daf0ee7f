//! Amount of its data that a page shows, so that it stays within [`MAX_PAGE_SIZE`].

use super::Page;

/// Bytes that a page has at most, unless its tables alone have more: a size that a browser shows at
/// once.
pub const MAX_PAGE_SIZE: usize = 2_000_000;

/// Levels of resolution. At the last ones a page shows a few of its plots only.
const LEVELS: u32 = 14;

/// Coarseness with which a page shows its data: each level halves what plots hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resolution(u32);

impl Resolution {
    /// Returns the number of `most` that are shown, such as points of a curve: not fewer than
    /// `least`.
    pub fn of(self, most: usize, least: usize) -> usize {
        (most >> self.0.min(usize::BITS - 1)).max(least.min(most))
    }

    /// Returns whether there is room for additions to the drawing, such as names of points.
    pub fn is_fine(self) -> bool {
        self.0 < 2
    }

    /// Returns the number of drives, or other subjects, that have plots at all.
    pub fn subjects(self) -> usize {
        match self.0 {
            0..6 => usize::MAX,
            level => 128 >> (level - 6).min(usize::BITS - 1),
        }
    }
}

impl Page {
    /// The HTML of the page that `draw` makes, in the finest resolution that stays within
    /// [`MAX_PAGE_SIZE`].
    pub fn within_limit(mut draw: impl FnMut(Resolution) -> Self) -> String {
        let mut html = draw(Resolution(0)).to_html();
        for level in 1..LEVELS {
            if html.len() <= MAX_PAGE_SIZE {
                break;
            }
            html = draw(Resolution(level)).to_html();
        }
        html
    }
}

/// At most so many of some points, from the first to the last.
pub fn thinned<T: Copy>(points: &[T], most: usize) -> Vec<T> {
    let last = points.len().saturating_sub(1);
    if points.len() <= most || most < 2 {
        return points.iter().take(most.max(1)).copied().collect();
    }
    (0..most).map(|index| points[index * last / (most - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page::Block, page::Section};

    #[test]
    fn points_are_thinned_from_the_first_to_the_last() {
        let points: Vec<u32> = (0..100).collect();
        assert_eq!(thinned(&points, 100), points);
        assert_eq!(thinned(&points, 4), [0, 33, 66, 99]);
        assert_eq!(thinned(&points, 2), [0, 99]);
        assert_eq!(thinned(&points, 1), [0]);
        assert!(thinned::<u32>(&[], 4).is_empty());
    }

    #[test]
    fn a_page_gets_coarser_until_it_fits() {
        let mut drawn = Vec::new();
        let page = |text: String| {
            let section = Section::new("").with(Block::Prose(text));
            Page { sections: vec![section], ..Page::default() }
        };
        let html = Page::within_limit(|resolution| {
            drawn.push(resolution);
            page("x".repeat(resolution.of(MAX_PAGE_SIZE * 5, 1)))
        });
        assert!(html.len() <= MAX_PAGE_SIZE && html.len() > MAX_PAGE_SIZE / 2, "{}", html.len());
        assert_eq!(drawn, [0, 1, 2, 3].map(Resolution));
        // A page that no resolution makes small is still a page.
        let html = Page::within_limit(|_| page("x".repeat(MAX_PAGE_SIZE)));
        assert!(html.len() > MAX_PAGE_SIZE);
    }

    #[test]
    fn the_coarsest_resolution_leaves_plots_to_one_subject() {
        assert_eq!(Resolution(5).subjects(), usize::MAX);
        assert_eq!(Resolution(LEVELS - 1).subjects(), 1);
        assert_eq!(Resolution(LEVELS - 1).of(1000, 12), 12);
        assert_eq!(Resolution(0).of(3, 12), 3);
    }
}
