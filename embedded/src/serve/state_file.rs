//! The file that keeps all objects.
//!
//! Responsible for: its form, and that each batch is written wholly or not at all. Must not: decide when to
//! save, or know what objects mean.
//!
//! One table for each kind, objects by namespace and name as JSON, and a table of numbers with the form
//! of the file and the version of the newest change.

use std::{
    collections::{BTreeMap, BTreeSet},
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

/// Why a file of the cluster's cannot be used; names it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct FileError {
    path: PathBuf,
    why: String,
}

impl FileError {
    /// What is wrong with a file.
    pub(super) fn new(path: &Path, why: &dyn fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        Self::other(error)
    }
}

/// What has changed since the last time.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The version of the newest change.
    pub(super) version: u64,
    /// Kinds of which all that was kept is to be forgotten first.
    pub(super) cleared: BTreeSet<Kind>,
    /// Objects by kind and key; none if they are gone.
    pub(super) objects: BTreeMap<(Kind, Box<str>), Option<Arc<Stored>>>,
}

/// What was found in the file.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) version: u64,
    pub(super) objects: Vec<(Kind, Vec<u8>)>,
}

/// The open file; nobody else can open it meanwhile.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    database: Database,
}

impl StateFile {
    /// Opens the file of a folder, or makes it; gives what is in it, unless it is new.
    pub(super) fn open(folder: &Path) -> Result<(Self, Option<Loaded>), FileError> {
        let path = folder.join(FILE);
        let wrong = |why: &dyn fmt::Display| FileError::new(&path, why);
        private_file::make_folder(folder).map_err(|error| FileError::new(folder, &error))?;
        // A link that leads nowhere is there, too.
        let fresh = path
            .symlink_metadata()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if fresh {
            create(&path).map_err(|error| wrong(&error))?;
        }
        let opened = private_file::open(&path, File::options().read(true).write(true));
        let opened = opened.map_err(|error| wrong(&error))?;
        // redb would make a state of it.
        if opened.metadata().is_ok_and(|found| found.len() == 0) {
            return Err(wrong(&"not a state: it is empty"));
        }
        let mut database = database(opened).map_err(|error| wrong(&opening(&error)))?;
        let sound = database.check_integrity().map_err(|error| wrong(&error))?;
        if !sound {
            return Err(wrong(&"the file is damaged"));
        }
        let file = Self { path, database };
        let loaded = if fresh { None } else { Some(file.load()?) };
        Ok((file, loaded))
    }

    /// Saves a batch; when this returns, it is on the disk.
    pub(super) fn save(&self, batch: &Batch) -> Result<(), FileError> {
        self.try_save(batch).map_err(|error| self.wrong(&error))
    }

    /// An error about this file.
    pub(super) fn wrong(&self, why: &dyn fmt::Display) -> FileError {
        FileError::new(&self.path, why)
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

    fn load(&self) -> Result<Loaded, FileError> {
        let wrong = |error: redb::Error| self.wrong(&error);
        let (numbers, objects) = self.read().map_err(wrong)?;
        if numbers.get(FORMAT.0) != Some(&FORMAT.1) {
            let why = format!("not a file of form {}, the only one known", FORMAT.1);
            return Err(self.wrong(&why));
        }
        let mut known = Vec::with_capacity(objects.len());
        for (kind, bytes) in objects {
            let found = Kind::find_qualified(&kind)
                .ok_or_else(|| self.wrong(&format!("there are {kind} in it, which nobody knows")));
            known.push((found?, bytes));
        }
        Ok(Loaded {
            version: numbers.get(VERSION).copied().unwrap_or_default(),
            objects: known,
        })
    }

    #[expect(clippy::type_complexity, reason = "it is taken apart at once")]
    fn read(&self) -> Result<(BTreeMap<String, u64>, Vec<(String, Vec<u8>)>), redb::Error> {
        let transaction = self.database.begin_read()?;
        let mut numbers = BTreeMap::new();
        let mut objects = Vec::new();
        for handle in transaction.list_tables()? {
            let name = handle.name();
            if name == NUMBERS.name() {
                for entry in transaction.open_table(NUMBERS)?.iter()? {
                    let (key, value) = entry?;
                    numbers.insert(key.value().to_owned(), value.value());
                }
                continue;
            }
            for entry in transaction.open_table(table(name))?.iter()? {
                objects.push((name.to_owned(), entry?.1.value().to_vec()));
            }
        }
        Ok((numbers, objects))
    }
}

const fn table(name: &str) -> TableDefinition<'_, &'static str, &'static [u8]> {
    TableDefinition::new(name)
}

/// Makes an empty file that is whole from the moment that it has its name.
fn create(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
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
        redb::DatabaseError::DatabaseAlreadyOpen => "somebody else has it open".to_owned(),
        error => format!("not a state, or damaged: {error}"),
    }
}
