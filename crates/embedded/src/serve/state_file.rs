//! Stores all objects in a file.
//!
//! Responsible for: its format, and writing each batch atomically. Must not: decide when to save, or know the meaning
//! of objects.
//!
//! The file has one table per kind, with objects as JSON by namespace and name. A table of numbers holds the format and
//! the version of the newest change.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{
    Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle, backends::FileBackend,
};

use super::private_file;
use crate::apiserver::{Kind, Stored};

const FILE: &str = "objects.redb";
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const FORMAT: (&str, u64) = ("format", 1);
const VERSION: &str = "version";

/// Error that names a file of the cluster and says why it is unusable.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct FileError {
    path: PathBuf,
    why: String,
}

/// Adds the file's path to an error.
pub(super) trait About<T> {
    fn about(self, path: &Path) -> Result<T, FileError>;
}

impl<T, E: fmt::Display> About<T> for Result<T, E> {
    fn about(self, path: &Path) -> Result<T, FileError> {
        self.map_err(|why| FileError {
            path: path.to_owned(),
            why: why.to_string(),
        })
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        Self::other(error)
    }
}

/// Changes since the last save.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Version of the newest change.
    pub(super) version: u64,
    /// Kinds whose saved objects are deleted first.
    pub(super) cleared: BTreeSet<Kind>,
    /// Objects by kind and key; none for deleted ones.
    pub(super) objects: BTreeMap<(Kind, Box<str>), Option<Arc<Stored>>>,
}

/// Content of the file.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) version: u64,
    pub(super) objects: Vec<(Kind, Vec<u8>)>,
}

/// The open file; the process holds its lock.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    database: Database,
}

impl StateFile {
    /// Opens the folder's file, or creates it. Returns its content, unless it is new.
    pub(super) fn open(folder: &Path) -> Result<(Self, Option<Loaded>), FileError> {
        let path = folder.join(FILE);
        private_file::make_folder(folder).about(folder)?;
        // A dangling link counts as existing.
        let fresh = path
            .symlink_metadata()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if fresh {
            create(&path).about(&path)?;
        }
        let mut options = File::options();
        let opened = private_file::open(&path, options.read(true).write(true)).about(&path)?;
        // redb would initialize an empty file as a new database.
        if opened.metadata().is_ok_and(|found| found.len() == 0) {
            return Err("the state file is empty").about(&path);
        }
        let database = database(opened).map_err(|error| opening(&error));
        let mut database = database.about(&path)?;
        if !database.check_integrity().about(&path)? {
            return Err("the file is damaged").about(&path);
        }
        let file = Self { path, database };
        let loaded = match fresh {
            true => None,
            false => Some(file.load().about(&file.path)?),
        };
        Ok((file, loaded))
    }

    /// Saves a batch; it is on disk on return.
    pub(super) fn save(&self, batch: &Batch) -> Result<(), FileError> {
        self.try_save(batch).about(&self.path)
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn try_save(&self, batch: &Batch) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        for kind in &batch.cleared {
            transaction.delete_table(table(&kind.qualified()))?;
        }
        let mut objects = batch.objects.iter().peekable();
        while let Some(((kind, _), _)) = objects.peek() {
            let kind = *kind;
            let name = kind.qualified();
            let mut table = transaction.open_table(table(&name))?;
            while let Some(((_, key), object)) = objects.next_if(|((next, _), _)| *next == kind) {
                match object {
                    Some(object) => table.insert(&**key, object.bytes())?,
                    None => table.remove(&**key)?,
                };
            }
        }
        transaction
            .open_table(NUMBERS)?
            .insert(VERSION, batch.version)?;
        Ok(transaction.commit()?)
    }

    fn load(&self) -> Result<Loaded, Box<dyn Error>> {
        let transaction = self.database.begin_read()?;
        let numbers = transaction.open_table(NUMBERS);
        let format = numbers.as_ref().ok().and_then(|it| it.get(FORMAT.0).ok()?);
        if format.is_none_or(|found| found.value() != FORMAT.1) {
            return Err(format!("unknown format; this lakh reads only format {}", FORMAT.1).into());
        }
        let version = numbers?.get(VERSION)?.map_or(0, |found| found.value());
        let mut objects = Vec::new();
        for handle in transaction.list_tables()? {
            let name = handle.name();
            if name == NUMBERS.name() {
                continue;
            }
            let kind = Kind::find_qualified(name)
                .ok_or_else(|| format!("it has unknown objects: {name}"))?;
            for entry in transaction.open_table(table(name))?.iter()? {
                objects.push((kind, entry?.1.value().to_vec()));
            }
        }
        Ok(Loaded { version, objects })
    }
}

const fn table(name: &str) -> TableDefinition<'_, &'static str, &'static [u8]> {
    TableDefinition::new(name)
}

/// Creates a file without objects. It is complete before it gets its name.
fn create(path: &Path) -> Result<(), Box<dyn Error>> {
    let draft = private_file::draft(path)?;
    let database = database(draft.reopen()?)?;
    let transaction = database.begin_write()?;
    transaction
        .open_table(NUMBERS)?
        .insert(FORMAT.0, FORMAT.1)?;
    transaction.commit()?;
    drop(database);
    draft.persist_noclobber(path)?;
    Ok(())
}

fn database(file: File) -> Result<Database, redb::DatabaseError> {
    Database::builder().create_with_backend(FileBackend::new(file)?)
}

fn opening(error: &redb::DatabaseError) -> String {
    match error {
        redb::DatabaseError::DatabaseAlreadyOpen => "another process uses it".to_owned(),
        error => format!("not a state file, or damaged: {error}"),
    }
}
