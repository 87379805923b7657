//! The arguments of every command. Sizes read `XxYxZ`; a roi entry of 0 or -1 means the whole axis.

use crate::app::{Startup, Workspace};
use crate::geometry::Extent;
use crate::memory::Precision;
use crate::memory::budget::{Display, Mode, Optimizer, Runtime, StitchOn};
use crate::network::{Asked, Choice};
use crate::tiling::{Blend, Layout, parse_overlap, parse_roi};
use crate::units::Bytes;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Does a 3D network fit the card, where are the seams, and what to buy. Not for clinical use.
#[derive(Debug, Parser)]
#[command(name = "voxfit", version, max_term_width = 100)]
pub(super) struct Cli {
    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Open the window on folders and files.
    Open(OpenArgs),
    /// What a file or folder holds.
    Series(SeriesArgs),
    /// A network's facts.
    Network(NetworkArgs),
    /// Writes a series as NIfTI.
    Volume(VolumeArgs),
    /// What a plan asks of memory, and the verdict per card.
    Budget(BudgetArgs),
    /// The largest roi that fits each card, and the next larger one that does not.
    Fit(super::fit::FitArgs),
    /// Where windows go.
    Windows(WindowsArgs),
    /// Windowed inference, and the result file.
    Run(RunArgs),
    /// Are two runs the same; a baseline run again; findings against truth (FROC).
    Parity(super::parity::ParityArgs),
    /// What the seams of a run did, by itself and against a reference.
    Seams(super::seams::SeamsArgs),
    /// The embedded study and network, the whole path.
    Demo(DemoArgs),
    /// One self-contained page from results and plans.
    Report(ReportArgs),
    /// A line through measured peaks, and the largest batch per card.
    Calibrate(CalibrateArgs),
    /// The catalogue of cards.
    Cards(CardsArgs),
    /// What carries a load, and what a study then costs.
    Buy(super::buy::BuyArgs),
    /// Peaks, seconds, exactness and parity of rois x precisions x layouts: the trade-off curve.
    Sweep(super::sweep::SweepArgs),
    /// What can run here, and why not.
    Engines,
    /// One forward pass on a tensor (N, C, spatial).
    Forward(ForwardArgs),
    /// Times of this machine beside what they are held against.
    Bench(BenchArgs),
}

#[derive(Debug, Args)]
pub(super) struct OpenArgs {
    /// Folders, DICOM, NIfTI, MHD, npy, networks, plans.
    paths: Vec<PathBuf>,
    /// A network: a file or preset:NAME.
    #[arg(long)]
    model: Option<String>,
    /// F.safetensors or seeded:N, for the network of --model, of the plan or among the paths.
    #[arg(long)]
    weights: Option<String>,
    /// A plan file.
    #[arg(long)]
    plan: Option<PathBuf>,
    /// plan, review, seams or buy.
    #[arg(long)]
    workspace: Option<Workspace>,
}

impl OpenArgs {
    pub(super) fn startup(self) -> Startup {
        Startup {
            paths: self.paths,
            network: self.model,
            weights: self.weights,
            plan: self.plan,
            workspace: self.workspace,
            demo: false,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct SeriesArgs {
    /// A DICOM file or folder, NIfTI, MHD, npy, or phantom:XxYxZ or phantom:XxYxZ:SEED.
    pub(super) path: String,
    /// Print patient names too.
    #[arg(long)]
    pub(super) identity: bool,
}

/// A network and what gives it its manifest and weights.
#[derive(Debug, Args)]
pub(super) struct ModelArgs {
    /// A manifest that does not lie beside the model.
    #[arg(long)]
    pub(super) manifest: Option<PathBuf>,
    /// F.safetensors, F.pt, F.pth or seeded:N.
    #[arg(long)]
    pub(super) weights: Option<String>,
    /// One of the configurations of an nnU-Net plan, such as `3d_lowres`.
    #[arg(long)]
    pub(super) configuration: Option<String>,
    /// One of the trained folds of an nnU-Net results folder.
    #[arg(long)]
    pub(super) fold: Option<String>,
}

impl ModelArgs {
    pub(super) fn choice(&self) -> Choice {
        Choice {
            manifest: self.manifest.clone(),
            weights: self.weights.clone(),
            configuration: self.configuration.clone(),
            fold: self.fold.clone(),
            asked: None,
        }
    }

    /// The same for a window of this size, where one is asked for.
    pub(super) fn choice_at(&self, roi_size: Option<Extent>) -> Choice {
        Choice {
            asked: roi_size.map(|roi| Asked::Window(roi.to_array())),
            ..self.choice()
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct NetworkArgs {
    /// A file or preset:NAME.
    #[arg(required_unless_present = "list")]
    pub(super) model: Option<String>,
    /// Name the presets.
    #[arg(long)]
    pub(super) list: bool,
    /// Shapes, bytes and FLOPs for a window of this size.
    #[arg(long, value_parser = size, allow_hyphen_values = true)]
    pub(super) roi_size: Option<Extent>,
    /// Print the manifest in use, or the one proposed: save it beside the model as `NAME.voxfit.toml`.
    #[arg(long)]
    pub(super) print_manifest: bool,
    #[command(flatten)]
    pub(super) files: ModelArgs,
}

/// What is chosen about windows.
#[derive(Clone, Debug, Args)]
pub(super) struct WindowChoice {
    /// Window size; 0 or -1 means the whole axis.
    #[arg(long, value_parser = parse_roi_text, allow_hyphen_values = true)]
    pub(super) roi_size: Option<Extent>,
    /// Share of the window, one figure or three: 0.25 or 0.25,0.25,0.5.
    #[arg(long, value_parser = parse_overlap_text, allow_hyphen_values = true)]
    pub(super) overlap: Option<Overlaps>,
    /// constant or gaussian.
    #[arg(long, value_parser = blend)]
    pub(super) blend: Option<Blend>,
    /// monai, nnunet or aligned.
    #[arg(long, value_parser = layout)]
    pub(super) layout: Option<Layout>,
}

impl WindowChoice {
    /// As `tiling` lays it over a manifest's defaults.
    pub(super) fn choice(&self) -> crate::tiling::Choice {
        crate::tiling::Choice {
            roi_size: self.roi_size,
            overlap: self.overlap.map(|o| o.0),
            blend: self.blend,
            layout: self.layout,
        }
    }
}

/// Three shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overlaps(pub(super) [f64; 3]);

#[derive(Debug, Args)]
pub(super) struct WindowsArgs {
    /// A network that gives stride, reach and norms.
    pub(super) model: Option<String>,
    /// Size of the volume.
    #[arg(long, value_parser = size, allow_hyphen_values = true)]
    pub(super) volume: Extent,
    /// Its spacing in mm: with it and a network that resamples, windows are placed on the resampled volume.
    #[arg(long, value_parser = triple, allow_hyphen_values = true)]
    pub(super) spacing: Option<Triple>,
    #[command(flatten)]
    pub(super) choice: WindowChoice,
    /// Total stride without a network.
    #[arg(long, value_parser = size, allow_hyphen_values = true)]
    pub(super) stride: Option<Extent>,
    /// Reach to the left without a network.
    #[arg(long, value_parser = reach, requires = "reach_right", allow_hyphen_values = true)]
    pub(super) reach_left: Option<Extent>,
    /// Reach to the right without a network.
    #[arg(long, value_parser = reach, requires = "reach_left", allow_hyphen_values = true)]
    pub(super) reach_right: Option<Extent>,
    #[command(flatten)]
    pub(super) files: ModelArgs,
}

/// Three figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Triple(pub(super) [f64; 3]);

#[derive(Debug, Args)]
pub(super) struct CardsArgs {
    /// Words of the id or name, or "16 gb".
    #[arg(long)]
    pub(super) filter: Option<String>,
    /// A file of cards that corrects or adds to the catalogue.
    #[arg(long)]
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ForwardArgs {
    /// A file or preset:NAME.
    pub(super) model: String,
    /// The tensor, as numpy writes it (float32, C order).
    pub(super) input: PathBuf,
    /// Folder for `output_0.npy` and on.
    #[arg(long)]
    pub(super) out: PathBuf,
    /// auto, cpu or cuda.
    #[arg(long, default_value = "auto", value_parser = ["auto", "cpu", "cuda"])]
    pub(super) engine: String,
    /// Only fp32 runs on the CPU.
    #[arg(long, default_value = "fp32", value_parser = ["fp32", "fp16", "bf16"])]
    pub(super) precision: String,
    /// Threads of the CPU engine; 0 takes all cores.
    #[arg(long, default_value = "0", value_parser = parse_threads, allow_hyphen_values = true)]
    pub(super) threads: usize,
    /// Most bytes of the arena, such as 3865470566 or "3.6 GiB": a window that needs more runs in tiles.
    #[arg(long, value_parser = crate::app::parse::bytes)]
    pub(super) memory_limit: Option<Bytes>,
    /// The best of so many passes after one uncounted.
    #[arg(long, default_value_t = 1)]
    pub(super) repeat: usize,
    #[command(flatten)]
    pub(super) files: ModelArgs,
}

pub(super) fn size(text: &str) -> Result<Extent, String> {
    let e: Extent = text
        .parse()
        .map_err(|e: crate::geometry::ExtentError| e.to_string())?;
    if e.is_empty() || e.checked_voxels().is_none() {
        return Err(format!(
            "a size has 1 voxel or more along every axis and a countable number in all; found {text}"
        ));
    }
    Ok(e)
}

/// Voxels to one side along each axis: none of them for a network that looks at single voxels.
fn reach(text: &str) -> Result<Extent, String> {
    text.parse()
        .map_err(|e: crate::geometry::ExtentError| e.to_string())
}

pub(super) fn parse_roi_text(text: &str) -> Result<Extent, String> {
    parse_roi(text).map_err(|e| e.to_string())
}

pub(super) fn parse_overlap_text(text: &str) -> Result<Overlaps, String> {
    parse_overlap(text).map(Overlaps).map_err(|e| e.to_string())
}

fn triple(text: &str) -> Result<Triple, String> {
    let numbers: Option<Vec<f64>> = text.split(',').map(|p| p.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[x, y, z]) if [x, y, z].iter().all(|v| v.is_finite() && *v > 0.0) => {
            Ok(Triple([x, y, z]))
        }
        _ => Err(format!(
            "a spacing is three lengths above 0 mm joined by commas, such as 0.7,0.7,1.25; found \"{text}\""
        )),
    }
}

pub(super) fn blend(text: &str) -> Result<Blend, String> {
    match text {
        "constant" => Ok(Blend::Constant),
        "gaussian" => Ok(Blend::Gaussian),
        _ => Err(format!("a blend is constant or gaussian; found \"{text}\"")),
    }
}

pub(super) fn layout(text: &str) -> Result<Layout, String> {
    match text {
        "monai" => Ok(Layout::Monai),
        "nnunet" => Ok(Layout::Nnunet),
        "aligned" => Ok(Layout::Aligned),
        _ => Err(format!(
            "a layout is monai, nnunet or aligned; found \"{text}\""
        )),
    }
}

/// Declares the words of an option and what each stands for.
macro_rules! words {
    ($name:ident => $target:ty { $($word:ident => $value:expr),+ $(,)? }) => {
        #[derive(Clone, Copy, Debug, clap::ValueEnum)]
        pub(super) enum $name { $($word),+ }
        impl From<$name> for $target {
            fn from(word: $name) -> Self {
                match word { $($name::$word => $value),+ }
            }
        }
    };
}

words!(RuntimeWord => Runtime { Voxfit => Self::Voxfit, Pytorch => Self::Pytorch });
words!(ModeWord => Mode { Inference => Self::Inference, Training => Self::Training });
words!(PrecisionWord => Precision { Fp32 => Self::Fp32, Fp16 => Self::Fp16, Bf16 => Self::Bf16, Amp => Self::Amp });
words!(OptimizerWord => Optimizer { None => Self::None, Sgd => Self::Sgd, Adam => Self::Adam, Adamw => Self::AdamW });
words!(StitchWord => StitchOn { Card => Self::Card, Host => Self::Host });
words!(DisplayWord => Display { Headless => Self::Headless, Desktop => Self::Desktop, Windows => Self::Windows });

#[derive(Debug, Args)]
pub(super) struct BudgetArgs {
    /// A file or preset:NAME.
    pub(super) model: String,
    /// Window size; 0 or -1 means the whole axis of --volume.
    #[arg(long, value_parser = parse_roi_text, allow_hyphen_values = true)]
    pub(super) roi_size: Extent,
    /// Size of the volume that is stitched.
    #[arg(long, value_parser = size, allow_hyphen_values = true)]
    pub(super) volume: Option<Extent>,
    #[arg(long, value_enum, default_value = "voxfit")]
    pub(super) runtime: RuntimeWord,
    #[arg(long, value_enum, default_value = "inference")]
    pub(super) mode: ModeWord,
    #[arg(long, value_enum, default_value = "fp32")]
    pub(super) precision: PrecisionWord,
    /// Windows per forward pass, or the training batch.
    #[arg(long, default_value = "1", value_parser = parse_batch, allow_hyphen_values = true)]
    pub(super) batch: usize,
    #[arg(long, value_enum, default_value = "none")]
    pub(super) optimizer: OptimizerWord,
    /// Activations are computed twice and kept once.
    #[arg(long)]
    pub(super) checkpointing: bool,
    /// Most bytes of the arena, such as 3865470566 or "3.6 GiB": a window that needs more runs in tiles.
    #[arg(long, value_parser = crate::app::parse::bytes)]
    pub(super) memory_limit: Option<Bytes>,
    /// The window in tiles, as far as that goes without computing anything twice.
    #[arg(long, conflicts_with = "memory_limit")]
    pub(super) tiles: bool,
    #[arg(long, value_enum, default_value = "host")]
    pub(super) stitch_on: StitchWord,
    /// What else the card shows.
    #[arg(long, value_enum, default_value = "headless")]
    pub(super) display: DisplayWord,
    /// Cards by id; with cards named, exit 1 says that one of them is over.
    #[arg(long, num_args = 1.., value_delimiter = ',')]
    pub(super) card: Vec<String>,
    #[command(flatten)]
    pub(super) files: ModelArgs,
}

#[derive(Debug, Args)]
pub(super) struct VolumeArgs {
    /// A study: DICOM, NIfTI, MHD, npy, or phantom:XxYxZ or phantom:XxYxZ:SEED.
    pub(super) path: String,
    /// One of several series: UID or UID#part.
    #[arg(long)]
    pub(super) series: Option<String>,
    /// Resample (linear) to a straight grid what leans, has gaps or uneven steps.
    #[arg(long)]
    pub(super) straight_grid: bool,
    /// F.nii or F.nii.gz; a name without an ending is a folder that gets a DICOM series.
    #[arg(long)]
    pub(super) out: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    pub(super) what: BenchVerb,
    /// The best of this many.
    #[arg(long, default_value_t = 3, global = true)]
    pub(super) repeat: usize,
}

#[derive(Debug, Subcommand)]
pub(super) enum BenchVerb {
    /// Opening a DICOM folder: headers, first slice, whole volume.
    Load {
        /// A DICOM file or folder.
        path: PathBuf,
        /// One of several series: UID or UID#part.
        #[arg(long)]
        series: Option<String>,
    },
    /// One pass of the CPU engine, layer by layer, against the measured peak of its multiply-adds (a roofline table).
    Layers {
        /// A file or preset:NAME (with --weights seeded:1).
        model: String,
        /// Window size.
        #[arg(long)]
        roi_size: Extent,
        /// Threads; 0 takes all cores.
        #[arg(long, default_value = "0", value_parser = parse_threads, allow_hyphen_values = true)]
        threads: usize,
        #[command(flatten)]
        files: ModelArgs,
    },
    /// Planning one window of a network: what a slider of the plan panel costs.
    Plan {
        /// A file or preset:NAME.
        model: String,
        /// Window size.
        #[arg(long)]
        roi_size: Extent,
    },
    /// The largest roi of sixty cards, each of up to some thousand rois.
    Fit {
        /// A file or preset:NAME.
        model: String,
        /// Size of the volume.
        #[arg(long, default_value = "512x512x512", value_parser = size)]
        volume: Extent,
    },
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// DICOM, NIfTI, MHD, npy, or phantom:XxYxZ or phantom:XxYxZ:SEED.
    pub(super) study: String,
    /// A file or preset:NAME.
    pub(super) model: String,
    /// One of several series: UID or UID#part.
    #[arg(long)]
    pub(super) series: Option<String>,
    /// Resample (linear) to a straight grid what leans, has gaps or uneven steps.
    #[arg(long)]
    pub(super) straight_grid: bool,
    /// A plan file, under what is given here.
    #[arg(long)]
    pub(super) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(super) choice: WindowChoice,
    /// Windows per forward pass.
    #[arg(long, value_parser = parse_batch, allow_hyphen_values = true)]
    pub(super) batch: Option<usize>,
    /// auto, cpu or cuda.
    #[arg(long, default_value = "auto", value_parser = ["auto", "cpu", "cuda"])]
    pub(super) engine: String,
    #[arg(long, value_enum, default_value = "fp32")]
    pub(super) precision: PrecisionWord,
    /// Most bytes of the arena, such as 3865470566 or "3.6 GiB": a window that needs more runs in tiles.
    #[arg(long, value_parser = crate::app::parse::bytes)]
    pub(super) memory_limit: Option<Bytes>,
    /// One window may cover the whole volume, in this run.
    #[arg(long)]
    pub(super) allow_single_pass: bool,
    /// Threads of the CPU engine; 0 takes all cores.
    #[arg(long, default_value = "0", value_parser = parse_threads, allow_hyphen_values = true)]
    pub(super) threads: usize,
    /// The result file.
    #[arg(long)]
    pub(super) out: PathBuf,
    /// Labels of a segmentation, as NIfTI.
    #[arg(long)]
    pub(super) labels: Option<PathBuf>,
    /// A folder for the stitched outputs, `output_0.npy` and on, for `voxfit seams --reference`.
    #[arg(long)]
    pub(super) keep_outputs: Option<PathBuf>,
    /// Run with the manifest that was proposed for a model that has none.
    #[arg(long)]
    pub(super) accept_manifest: bool,
    #[command(flatten)]
    pub(super) files: ModelArgs,
}

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Without a window: writes result, report and pictures.
    #[arg(long)]
    pub(super) headless: bool,
    /// Folder for them; voxfit-demo in this folder if it is left out.
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Result files, plans, networks.
    #[arg(required = true)]
    pub(super) inputs: Vec<PathBuf>,
    /// The page.
    #[arg(long)]
    pub(super) out: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct CalibrateArgs {
    /// X=BYTES,X=BYTES,... (X = batch, slices, voxels).
    #[arg(long)]
    pub(super) points: String,
    /// Cards by id.
    #[arg(long, num_args = 1.., value_delimiter = ',')]
    pub(super) card: Vec<String>,
}

/// Threads of an engine: more than this helps no machine and can starve it.
pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n <= 1024 => Ok(n),
        _ => Err(format!(
            "expected 0 (one thread per core) or at most 1024 threads, found {text}"
        )),
    }
}

/// Windows per pass: at least one, and no figure that no machine can hold.
pub(super) fn parse_batch(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=1 << 20).contains(&n) => Ok(n),
        _ => Err(format!(
            "a batch is a whole number from 1 to 1048576, found {text}"
        )),
    }
}
