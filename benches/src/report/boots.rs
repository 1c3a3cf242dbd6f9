//! Figures of several boots. Candidates took turns within a boot, so they are compared boot by boot. The ratio that counts is the median
//! of these ratios.

use crate::figure::{Figure, quantile};
use serde::Serialize;

/// A ratio in one or more boots.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BootRatio {
    /// The median over the boots.
    pub median: f64,
    /// The lowest and the highest; `None`: there was one boot.
    pub range: Option<(f64, f64)>,
}

impl BootRatio {
    fn of(values: &[f64]) -> Option<Self> {
        let range = (values.len() > 1).then(|| (quantile(values, 0.0), quantile(values, 1.0)));
        (!values.is_empty()).then(|| Self { median: quantile(values, 0.5), range })
    }

    /// The medians of figures, one for each boot.
    pub fn of_medians(figures: &[&Figure]) -> Option<Self> {
        Self::of(&figures.iter().map(|figure| figure.median()).collect::<Vec<_>>())
    }

    /// The ratio of figures to those of the same boots. `None` if either is missing in a boot: which boots belong together is not known
    /// then.
    pub fn between(figures: &[&Figure], base: &[&Figure]) -> Option<Self> {
        let is_whole = figures.len() == base.len() && base.iter().all(|base| base.median() > 0.0);
        let ratios = figures.iter().zip(base).map(|(figure, base)| figure.median() / base.median());
        is_whole.then(|| Self::of(&ratios.collect::<Vec<_>>())).flatten()
    }
}

/// Figures of the same subject, metric, case and kernel as one, with the values of all boots, in the order of their first appearance.
/// Each comes with the figures of the boots.
pub fn merged(figures: &[Figure]) -> Vec<(Figure, Vec<&Figure>)> {
    let mut all: Vec<(Figure, Vec<&Figure>)> = Vec::new();
    for figure in figures {
        let is_same = |other: &Figure| figure.is_like(other) && figure.subject == other.subject;
        match all.iter_mut().find(|(other, _)| is_same(other)) {
            Some((sum, boots)) => {
                sum.values.extend(&figure.values);
                boots.push(figure);
            }
            None => all.push((figure.clone(), vec![figure])),
        }
    }
    all
}
