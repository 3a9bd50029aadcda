//! Tables of the page.
//!
//! A table that is wider than the page is shown in [parts](Grid::parts), one below the other, each with the names of the
//! rows: a figure that a reader has to scroll to is a figure that is not read. Widths are estimated from the number of
//! characters, on the large side of what the fonts of the style sheet take.

/// A table whose first column names its rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Grid {
    /// The headings, the first one above the names.
    pub(super) headings: Vec<String>,
    /// The rows.
    pub(super) rows: Vec<GridRow>,
}

/// One row.
#[derive(Debug, Clone, Default)]
pub(super) struct GridRow {
    /// What the row is about.
    pub(super) name: String,
    /// A remark under the name.
    pub(super) remark: String,
    /// Class of the row, for the style sheet.
    pub(super) class: &'static str,
    /// Whether a new part of the table begins with it.
    pub(super) begins: bool,
    /// One cell per further heading.
    pub(super) cells: Vec<GridCell>,
}

/// One figure.
#[derive(Debug, Clone, Default)]
pub(super) struct GridCell {
    pub(super) value: String,
    /// The spread under it, or empty.
    pub(super) spread: String,
    /// Under that, where the true median lies, or empty.
    pub(super) interval: String,
    pub(super) alarming: bool,
}

impl Grid {
    /// A table with these headings and no rows.
    pub(super) fn new<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        Self { headings: headings.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// Adds a row of plain figures; an absent one is an empty cell.
    pub(super) fn push(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = Option<String>>) {
        let cells =
            cells.into_iter().map(|cell| GridCell { value: cell.unwrap_or_default(), ..GridCell::default() });
        self.rows.push(GridRow { name: name.into(), cells: cells.collect(), ..GridRow::default() });
    }

    /// The table in as many parts as the page needs to show all of its columns.
    pub(super) fn parts(&self) -> Vec<Self> {
        let names = self.width_of_names();
        let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
        let mut width = names;
        for column in 1..self.headings.len() {
            let of_column = self.width_of(column);
            if width + of_column > PAGE_WIDTH && parts.last().is_some_and(|part| !part.is_empty()) {
                parts.push(Vec::new());
                width = names;
            }
            width += of_column;
            parts.last_mut().expect("there is a first one").push(column);
        }
        parts.into_iter().map(|columns| self.only(&columns)).collect()
    }

    fn only(&self, columns: &[usize]) -> Self {
        let is_first = columns.first().is_none_or(|column| *column == 1);
        let headings = std::iter::once(0).chain(columns.iter().copied());
        let rows = self.rows.iter().map(|row| GridRow {
            name: row.name.clone(),
            remark: if is_first { row.remark.clone() } else { String::new() },
            class: row.class,
            begins: row.begins,
            cells: columns.iter().filter_map(|column| row.cells.get(column - 1).cloned()).collect(),
        });
        Self {
            headings: headings.filter_map(|column| self.headings.get(column).cloned()).collect(),
            rows: rows.collect(),
        }
    }

    fn width_of_names(&self) -> f64 {
        let of_name = |name: &str| {
            let whole = (characters(name) * NAME_CHARACTER).min(WIDEST_NAME);
            whole.max(longest_word(name) * NAME_CHARACTER)
        };
        let names = self.rows.iter().map(|row| of_name(&row.name));
        names.fold(self.headings.first().map_or(0.0, |heading| width_of_heading(heading)), f64::max)
    }

    fn width_of(&self, column: usize) -> f64 {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(column - 1));
        let widths = cells.map(|cell| {
            let below = characters(&cell.spread).max(characters(&cell.interval) + 2.0) * SMALL_CHARACTER;
            (characters(&cell.value) * CHARACTER).max(below.min(WIDEST_REMARK))
        });
        widths.fold(width_of_heading(&self.headings[column]), f64::max) + PADDING
    }

    /// The table without the columns in which no row has a figure; `None` if it has no rows.
    pub(super) fn without_empty_columns(mut self) -> Option<Self> {
        if self.rows.is_empty() {
            return None;
        }
        for column in (1..self.headings.len()).rev() {
            let empty = |row: &GridRow| row.cells.get(column - 1).is_none_or(|cell| cell.value.is_empty());
            if self.rows.iter().all(empty) {
                self.headings.remove(column);
                for row in self.rows.iter_mut().filter(|row| row.cells.len() >= column) {
                    row.cells.remove(column - 1);
                }
            }
        }
        Some(self)
    }
}

impl GridCell {
    /// Whether the spread is a sentence rather than a range of figures.
    pub(super) fn has_remark(&self) -> bool {
        self.spread.chars().count() > LONGEST_RANGE
    }
}

fn characters(text: &str) -> f64 {
    text.chars().count() as f64
}

/// Headings are broken between words.
fn width_of_heading(heading: &str) -> f64 {
    longest_word(heading) * HEADING_CHARACTER
}

fn longest_word(text: &str) -> f64 {
    text.split_whitespace().map(characters).fold(0.0, f64::max)
}

/// What a table has on a screen of 1280 pixels, between the margins of page and section and beside a scroll bar.
const PAGE_WIDTH: f64 = 1_050.0;

/// In pixels, the average over any text that occurs; the sizes of the fonts are those of the style sheet.
const CHARACTER: f64 = 8.2;
const NAME_CHARACTER: f64 = 8.6;
const HEADING_CHARACTER: f64 = 7.6;
const SMALL_CHARACTER: f64 = 7.0;

/// On the left of each cell.
const PADDING: f64 = 16.0;

/// Longer names and remarks are broken into lines, as the style sheet says.
const WIDEST_NAME: f64 = 272.0;
const WIDEST_REMARK: f64 = 288.0;
const LONGEST_RANGE: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_too_wide_continues_below_with_the_names_of_its_rows() {
        let headings: Vec<String> = (0..21).map(|column| format!("column-{column}")).collect();
        let mut grid = Grid::new(headings.iter().map(String::as_str));
        grid.push("row", (1..21).map(|column| Some(format!("figure {column}"))));
        let parts = grid.parts();
        assert_eq!(parts.len(), 2);
        assert!(parts.iter().all(|part| part.headings[0] == "column-0" && part.rows[0].name == "row"));
        let shown = parts.iter().flat_map(|part| &part.rows[0].cells).map(|cell| cell.value.as_str());
        assert!(shown.eq((1..21).map(|column| format!("figure {column}"))));
        let mut narrow = Grid::new(["role", "CPU"]);
        narrow.push("relay", [Some("97".to_owned())]);
        assert_eq!(narrow.parts().len(), 1);
    }

    #[test]
    fn columns_that_no_row_fills_are_left_out() {
        let mut grid = Grid::new(["role", "CPU", "memory", "limit"]);
        grid.push("relay", [Some("97".to_owned()), None, Some("1 core".to_owned())]);
        grid.push("hub", [None, None, None]);
        let grid = grid.without_empty_columns().unwrap();
        assert_eq!(grid.headings, ["role", "CPU", "limit"]);
        assert!(grid.rows.iter().all(|row| row.cells.len() == 2));
        assert!(Grid::new(["role"]).without_empty_columns().is_none());
    }
}
